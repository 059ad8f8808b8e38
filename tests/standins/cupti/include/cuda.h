/* A stand-in, see ../README.md. */
#pragma once
typedef struct CUctx_st *CUcontext;
typedef struct { char bytes[16]; } CUuuid;
