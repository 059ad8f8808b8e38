/* A stand-in, see ../README.md: what the recorder names of CUPTI, each struct beginning with the one before it. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <builtin_types.h>
#include "cuda.h"
#include "cupti_result.h"

typedef uint32_t CUpti_CallbackId;
typedef enum { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RUNTIME_API = 2 } CUpti_CallbackDomain;
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name);
typedef enum {
    CUPTI_ACTIVITY_KIND_MEMCPY = 1,
    CUPTI_ACTIVITY_KIND_MEMSET = 2,
    CUPTI_ACTIVITY_KIND_DRIVER = 4,
    CUPTI_ACTIVITY_KIND_RUNTIME = 5,
    CUPTI_ACTIVITY_KIND_DEVICE = 8,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_ACTIVITY_KIND_MARKER = 12,
    CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
    CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
} CUpti_ActivityKind;
typedef enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1, CUPTI_ACTIVITY_FLAG_MARKER_START = 2, CUPTI_ACTIVITY_FLAG_MARKER_END = 4 } CUpti_ActivityFlag;
typedef enum { CUPTI_ACTIVITY_OBJECT_THREAD = 2 } CUpti_ActivityObjectKind;
typedef enum { CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM = 1 } CUpti_ActivityThreadIdType;
typedef union { struct { uint32_t processId, threadId; } pt; } CUpti_ActivityObjectKindId;

typedef struct { CUpti_ActivityKind kind; } CUpti_Activity;
typedef struct {
    CUpti_ActivityKind kind;
    uint16_t registersPerThread;
    uint64_t start, end;
    uint32_t deviceId, contextId, streamId;
    int32_t gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory;
    uint32_t localMemoryPerThread, correlationId;
    const char *name;
    uint64_t graphNodeId;
    uint32_t graphId, clusterX, clusterY, clusterZ;
} CUpti_ActivityKernel8;
typedef struct {
    CUpti_ActivityKernel8 before;
    uint32_t added;
} CUpti_ActivityKernelNewest;
typedef CUpti_ActivityKernel8 CUpti_ActivityKernel9, CUpti_ActivityKernel10;
typedef struct {
    CUpti_ActivityKind kind;
    uint64_t globalMemorySize;
    uint32_t coreClockRate, numMultiprocessors, computeCapabilityMajor, computeCapabilityMinor, id;
    CUuuid uuid;
    const char *name;
} CUpti_ActivityDevice4;
typedef CUpti_ActivityDevice4 CUpti_ActivityDevice5;
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_ActivityFlag flags;
    uint64_t timestamp;
    uint32_t id;
    CUpti_ActivityObjectKind objectKind;
    CUpti_ActivityObjectKindId objectId;
    const char *name, *domain;
} CUpti_ActivityMarker2;
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_CallbackId cbid;
    uint64_t start, end;
    uint32_t processId, threadId, correlationId, returnValue;
} CUpti_ActivityAPI;
typedef struct {
    CUpti_ActivityKind kind;
    uint8_t copyKind, srcKind, dstKind, flags;
    uint64_t bytes, start, end;
    uint32_t deviceId, contextId, streamId, correlationId;
} CUpti_ActivityMemcpy5;
typedef struct {
    CUpti_ActivityKind kind;
    uint8_t copyKind, srcKind, dstKind, flags;
    uint64_t bytes, start, end;
    uint32_t deviceId, contextId, streamId, srcDeviceId, srcContextId, dstDeviceId, dstContextId, correlationId;
} CUpti_ActivityMemcpyPtoP4;
typedef struct {
    CUpti_ActivityKind kind;
    uint32_t value;
    uint64_t bytes, start, end;
    uint32_t deviceId, contextId, streamId, correlationId;
} CUpti_ActivityMemset4;
typedef enum { CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH = 1 << 16 } CUpti_ActivityOverheadKind;
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_ActivityOverheadKind overheadKind;
    CUpti_ActivityObjectKind objectKind;
    CUpti_ActivityObjectKindId objectId;
    uint64_t start, end;
} CUpti_ActivityOverhead;

typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext, uint32_t, uint8_t *buffer, size_t size, size_t valid);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *dropped);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type);
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
#if CUPTI_API_VERSION >= 24
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable);
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable);
#endif
