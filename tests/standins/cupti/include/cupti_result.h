/* A stand-in, see ../README.md. */
#pragma once
#define CUPTIAPI
typedef enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_NOT_INITIALIZED = 15, CUPTI_ERROR_MAX_LIMIT_REACHED = 12, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39 } CUptiResult;
CUptiResult cuptiGetResultString(CUptiResult result, const char **text);
