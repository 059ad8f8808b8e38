/* A stand-in, see ../README.md. */
#pragma once
#include "cupti_activity.h"
typedef enum { CUPTI_API_ENTER = 0, CUPTI_API_EXIT = 1 } CUpti_ApiCallbackSite;
typedef struct {
    CUpti_ApiCallbackSite callbackSite;
    const char *functionName;
    uint32_t correlationId;
} CUpti_CallbackData;
typedef struct CUpti_Subscriber_st *CUpti_SubscriberHandle;
typedef void (*CUpti_CallbackFunc)(void *data, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *call);
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *data);
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId);
