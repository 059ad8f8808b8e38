/* A stand-in for libcupti and the driver above it, see README.md. The program calls standin_... where it would call
 * CUDA or NVTX; what it then hands over follows CUPTI's rules: a buffer is delivered when it is full or asked for, and
 * only with FLUSH_FORCED while a kernel in it still runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *buffer;
static size_t size, used, dropped;
static int running; /* kernels in the buffer that have not ended */
static char enabled[64], runtime_calls[64], driver_calls[64], callbacks[3][64];
static CUpti_CallbackFunc subscribed;

static size_t size_of(CUpti_ActivityKind kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernelNewest);
    case CUPTI_ACTIVITY_KIND_MARKER: return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_DEVICE: return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead);
    default: return sizeof(CUpti_ActivityAPI);
    }
}
static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void deliver(void)
{
    if (!buffer)
        return;
    uint8_t *full = buffer;
    size_t valid = used;
    buffer = NULL;
    used = running = 0;
    complete(NULL, 0, full, size, valid);
}
static void *place(CUpti_ActivityKind kind)
{
    size_t bytes = size_of(kind);
    if (!request)
        return NULL;
    if (buffer && used + bytes > size)
        deliver();
    if (!buffer) {
        size_t most;
        request(&buffer, &size, &most);
        if (!size) {
            dropped++;
            buffer = NULL;
            return NULL;
        }
    }
    CUpti_Activity *record = memset(buffer + used, 0, bytes);
    record->kind = kind;
    used += bytes;
    return record;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = getenv("STANDIN_VERSION") ? (uint32_t)atoi(getenv("STANDIN_VERSION")) : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_INITIALIZED";
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name)
{
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
        *name = cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz ? "cuLaunchKernel_ptsz" : NULL;
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMalloc)
        *name = "cudaMalloc_v3020";
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice)
        *name = "cudaGetDevice_v3020";
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync)
        *name = "cudaMemcpyAsync_v3020";
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync)
        *name = "cudaMemcpyPeerAsync_v4000";
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMemset)
        *name = "cudaMemset_v3020";
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize)
        *name = "cudaStreamSynchronize_ptsz_v7000";
    else if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000)
        *name = "cudaLaunchKernel_v7000";
    else
        *name = NULL;
    return *name ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_INITIALIZED;
}
CUptiResult cuptiGetTimestamp(uint64_t *timestamp) { *timestamp = now(); return CUPTI_SUCCESS; }
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) { (void)type; return CUPTI_SUCCESS; }
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a, CUpti_BuffersCallbackCompleteFunc b)
{
    if (getenv("STANDIN_FAILS"))
        return CUPTI_ERROR_NOT_INITIALIZED;
    request = a;
    complete = b;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    enabled[kind] = 1;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
        CUpti_ActivityDevice5 *device = place(kind);
        const char *first = getenv("CUDA_VISIBLE_DEVICES");
        device->id = 0;
        device->name = "Stand-in GPU";
        device->computeCapabilityMajor = 9;
        device->numMultiprocessors = 132;
        device->coreClockRate = 1980000;
        device->globalMemorySize = 1ull << 37;
        memset(&device->uuid, first ? first[0] : '0', sizeof device->uuid);
    }
    return CUPTI_SUCCESS;
}
#if CUPTI_API_VERSION >= 24
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t on) { runtime_calls[cbid] = (char)on; return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t on) { driver_calls[cbid] = (char)on; return CUPTI_SUCCESS; }
#endif
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *data)
{
    (void)data;
    if (subscribed || getenv("STANDIN_SUBSCRIBED"))
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    subscribed = callback;
    *subscriber = (CUpti_SubscriberHandle)&subscribed;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
    (void)subscriber;
    callbacks[domain][cbid] = (char)on;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t valid, CUpti_Activity **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + size_of((*record)->kind) : from;
    if (next >= from + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    *count = dropped;
    dropped = 0;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    pthread_mutex_lock(&lock);
    if (!running || flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)
        deliver();
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

/* ---- what a program calls ---- */

void standin_init(void) /* cuInit */
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (path && !initialize)
        fprintf(stderr, "injection failed: %s\n", dlerror());
    if (initialize && !initialize())
        abort(); /* the driver does not start then */
}
static uint32_t correlation;
static uint64_t called; /* start of the last call of the runtime */
static void notify(CUpti_ApiCallbackSite site, CUpti_ActivityKind kind, CUpti_CallbackId cbid, uint32_t correlation)
{
    CUpti_CallbackDomain domain = kind == CUPTI_ACTIVITY_KIND_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
    CUpti_CallbackData data = {site, "", correlation};
    if (subscribed && callbacks[domain][cbid])
        subscribed(NULL, domain, cbid, &data);
}
static void leave(CUpti_ActivityKind kind, CUpti_CallbackId cbid, uint32_t correlation) { notify(CUPTI_API_EXIT, kind, cbid, correlation); }
static void call(CUpti_ActivityKind kind, CUpti_CallbackId cbid, uint32_t correlation)
{
    notify(CUPTI_API_ENTER, kind, cbid, correlation);
    char *calls = kind == CUPTI_ACTIVITY_KIND_DRIVER ? driver_calls : runtime_calls;
    CUpti_ActivityAPI *record = enabled[kind] || calls[cbid] ? place(kind) : NULL;
    if (!record)
        return;
    record->cbid = cbid;
    int driver = kind == CUPTI_ACTIVITY_KIND_DRIVER; /* made by the runtime, within its call */
    record->start = driver ? called + 1 : now();
    record->end = record->start + (driver ? 100 : 1000);
    static int asked;
    if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice && !asked++) /* the first one of a process takes long */
        record->end += 1000000;
    called = record->start;
    record->threadId = (uint32_t)syscall(SYS_gettid);
    record->correlationId = correlation;
}
void standin_launch(const char *name, int grid, int block, int shared, int ended)
{
    pthread_mutex_lock(&lock);
    call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice, ++correlation);
    leave(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice, correlation);
    call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc, ++correlation);
    leave(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc, correlation);
    call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, ++correlation);
    if (enabled[CUPTI_ACTIVITY_KIND_DRIVER]) { /* under a number of its own, which the kernel has */
        call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, ++correlation);
        leave(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, correlation);
    }
    leave(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, correlation);
    CUpti_ActivityKernel8 *record = enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] ? place(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) : NULL;
    if (record) {
        record->name = name;
        record->start = ended ? now() : 0;
        const char *takes = getenv("STANDIN_KERNEL_NS");
        record->end = ended ? record->start + (takes ? strtoull(takes, NULL, 10) : 5000) : 0;
        running += !ended;
        record->streamId = 7;
        record->gridX = grid;
        record->gridY = record->gridZ = record->blockY = record->blockZ = 1;
        record->blockX = block;
        record->registersPerThread = 40;
        record->staticSharedMemory = shared;
        record->dynamicSharedMemory = 16;
        record->clusterX = 2;
        record->clusterY = record->clusterZ = 1;
        record->correlationId = correlation;
    }
    pthread_mutex_unlock(&lock);
}
void standin_copy(int way, int source, int target, int bytes)
{
    pthread_mutex_lock(&lock);
    int peer = way == 10;
    CUpti_CallbackId cbid = peer ? CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync : CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync;
    call(CUPTI_ACTIVITY_KIND_RUNTIME, cbid, ++correlation);
    leave(CUPTI_ACTIVITY_KIND_RUNTIME, cbid, correlation);
    CUpti_ActivityKind kind = peer ? CUPTI_ACTIVITY_KIND_MEMCPY2 : CUPTI_ACTIVITY_KIND_MEMCPY;
    CUpti_ActivityMemcpy5 *record = enabled[kind] ? place(kind) : NULL;
    if (record) {
        record->copyKind = (uint8_t)way;
        record->srcKind = (uint8_t)source;
        record->dstKind = (uint8_t)target;
        record->bytes = (uint64_t)bytes;
        record->start = now();
        record->end = record->start + 2000;
        record->streamId = 7;
        record->correlationId = correlation;
    }
    if (record && peer) {
        record->correlationId = 0; /* another field there */
        ((CUpti_ActivityMemcpyPtoP4 *)record)->correlationId = correlation;
    }
    pthread_mutex_unlock(&lock);
}
void standin_fill(int bytes)
{
    pthread_mutex_lock(&lock);
    call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemset, ++correlation);
    leave(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemset, correlation);
    CUpti_ActivityMemset4 *record = enabled[CUPTI_ACTIVITY_KIND_MEMSET] ? place(CUPTI_ACTIVITY_KIND_MEMSET) : NULL;
    if (record) {
        record->bytes = (uint64_t)bytes;
        record->start = now();
        record->end = record->start + 500;
        record->streamId = 7;
        record->correlationId = correlation;
    }
    pthread_mutex_unlock(&lock);
}
void standin_wait(void)
{
    pthread_mutex_lock(&lock);
    call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize, ++correlation);
    leave(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize, correlation);
    CUpti_ActivityOverhead *record = enabled[CUPTI_ACTIVITY_KIND_OVERHEAD] ? place(CUPTI_ACTIVITY_KIND_OVERHEAD) : NULL;
    if (record) {
        record->overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
        record->objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
        record->objectId.pt.processId = (uint32_t)getpid();
        record->objectId.pt.threadId = (uint32_t)syscall(SYS_gettid);
        record->start = now();
        record->end = record->start + 300;
    }
    pthread_mutex_unlock(&lock);
}
static uint32_t mark(uint32_t id, CUpti_ActivityFlag flag, const char *name)
{
    static uint32_t last;
    pthread_mutex_lock(&lock);
    CUpti_ActivityMarker2 *record = enabled[CUPTI_ACTIVITY_KIND_MARKER] ? place(CUPTI_ACTIVITY_KIND_MARKER) : NULL;
    id = id ? id : ++last;
    if (record) {
        record->flags = flag;
        record->timestamp = now();
        record->id = id;
        record->objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
        record->objectId.pt.processId = (uint32_t)getpid();
        record->objectId.pt.threadId = (uint32_t)syscall(SYS_gettid);
        record->name = name;
    }
    pthread_mutex_unlock(&lock);
    return id;
}
uint32_t standin_push(const char *name) { return mark(0, CUPTI_ACTIVITY_FLAG_MARKER_START, name); }
void standin_pop(uint32_t id) { mark(id, CUPTI_ACTIVITY_FLAG_MARKER_END, NULL); }
