/*
 * Records when every kernel of a CUDA program ran, and which range of the program launched it.
 *
 * If CUDA_INJECTION64_PATH names this library, the CUDA driver loads it into the program during its initialisation and
 * calls InitializeInjection. From then on CUPTI's activity API delivers buffers of finished records, which are
 * shortened and appended to one file per process:
 *
 *     ROOFLENS_RECORD_DIR/<host>_<process id>.record
 *
 * The file starts with the text "RFLREC1\n", followed by chunks. A chunk is a header (struct chunk below) and as many
 * bytes as it states. It is written by one call and never changed, so if the program dies, all chunks except perhaps
 * the last are complete. All numbers are little-endian. Chunks:
 *
 *     INFO  lines key=value: versions, process, clocks, ranks
 *     NAME  texts that other chunks refer to by number: struct name and its bytes, without a terminating zero
 *     DEVC  struct device     KERN  struct kernel     LNCH  struct launch     MARK  struct marker
 *     CALL  struct call       COPY  struct copy       FILL  struct fill       OVHD  struct overhead   (timelines only)
 *     LOST  uint64, number of records that CUPTI reports as dropped
 *     FAIL  text: a CUPTI call that failed
 *     DONE  empty: the program ended normally and everything was delivered
 *
 * Readers skip unknown chunks. The fields of a struct are stored in order, without padding.
 *
 * The table `kinds` below lists what is recorded. ROOFLENS_RECORD_TIMELINE=1 adds all runtime and driver calls, copies,
 * fills, and CUPTI's own overhead. ROOFLENS_RECORD_FLUSH_MS sets how often finished records are requested (default
 * 200): a program that ends without running its exit handlers (os._exit, a signal) loses no more than that.
 *
 * Nothing here may stop or change the program: if anything fails, it continues without being recorded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cupti_activity.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

/* CUPTI delivers the newest struct that it knows. Every struct begins with the previous version, so an older struct can
 * read a newer record; all fields that are read here exist in CUDA 11.8. */
#if CUPTI_API_VERSION < 18
#error "CUPTI of CUDA 11.8 or newer is needed"
#elif CUPTI_API_VERSION < 19
typedef CUpti_ActivityKernel8 KernelRecord;
#elif CUPTI_API_VERSION < 130000
typedef CUpti_ActivityKernel9 KernelRecord;
#else
typedef CUpti_ActivityKernel10 KernelRecord;
#endif
#if CUPTI_API_VERSION < 22
typedef CUpti_ActivityDevice4 DeviceRecord;
#else
typedef CUpti_ActivityDevice5 DeviceRecord;
#endif
enum { OLDEST_LIBRARY = 18 };

/* ---- file format ---- */

struct chunk {
    char kind[4];
    uint32_t record_bytes; /* size of one record; 0 if sizes differ */
    uint64_t bytes;        /* number of bytes that follow */
};

struct name {
    uint32_t id, bytes;
};

struct device {
    uint32_t id, name, major, minor, multiprocessors, clock_khz;
    uint64_t memory_bytes;
    uint8_t uuid[16];
};

struct kernel {
    uint64_t start_ns, end_ns, graph_node;
    uint32_t name, device, context, stream, correlation, graph;
    uint32_t grid[3], block[3], cluster[3];
    uint32_t registers, static_shared_bytes, dynamic_shared_bytes, local_bytes;
    uint32_t reserved;
};

struct launch {
    uint64_t start_ns, end_ns;
    uint32_t correlation, thread, cbid, driver; /* driver: 1 if cbid is of the driver API, 0 of the runtime */
};

struct marker {
    uint64_t time_ns;
    uint32_t id, flags, name, domain, object, process, thread; /* object: whether the range belongs to a thread */
    uint32_t reserved;
};

struct call {
    uint64_t start_ns, end_ns;
    uint32_t correlation, thread, name, driver;
};

struct copy {
    uint64_t start_ns, end_ns, bytes;
    uint32_t device, context, stream, correlation;
    uint32_t way, source, target; /* CUpti_ActivityMemcpyKind, and CUpti_ActivityMemoryKind of both sides */
    uint32_t reserved;
};

struct fill {
    uint64_t start_ns, end_ns, bytes;
    uint32_t device, context, stream, correlation;
};

struct overhead {
    uint64_t start_ns, end_ns;
    uint32_t kind, object, process, thread; /* object: whether it belongs to a thread */
};

_Static_assert(sizeof(struct call) == 32 && sizeof(struct copy) == 56, "the reader knows these sizes");
_Static_assert(sizeof(struct fill) == 40 && sizeof(struct overhead) == 32, "the reader knows these sizes");
_Static_assert(sizeof(struct kernel) == 104 && sizeof(struct launch) == 32, "the reader knows these sizes");
_Static_assert(sizeof(struct marker) == 40 && sizeof(struct device) == 48, "the reader knows these sizes");

static const char MAGIC[8] = "RFLREC1\n";

/* ---- state; everything below `lock` is protected by it ---- */

static bool timeline; /* whether a full timeline is recorded */
static pid_t owner; /* a forked child inherits this state, but neither CUPTI nor the threads */
static int file = -1;
static pthread_t flusher;
static bool flushing, ending;
static pthread_mutex_t waking = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Records of one kind that are waiting to be written. */
struct staged {
    char kind[4];
    uint32_t record_bytes;
    char *data;
    size_t used, room;
};

static struct staged names = {"NAME", 0, NULL, 0, 0};
static struct staged devices = {"DEVC", sizeof(struct device), NULL, 0, 0};
static struct staged kernels = {"KERN", sizeof(struct kernel), NULL, 0, 0};
static struct staged launches = {"LNCH", sizeof(struct launch), NULL, 0, 0};
static struct staged markers = {"MARK", sizeof(struct marker), NULL, 0, 0};
static struct staged calls = {"CALL", sizeof(struct call), NULL, 0, 0};
static struct staged copies = {"COPY", sizeof(struct copy), NULL, 0, 0};
static struct staged fills = {"FILL", sizeof(struct fill), NULL, 0, 0};
static struct staged overheads = {"OVHD", sizeof(struct overhead), NULL, 0, 0};
static struct staged lost = {"LOST", sizeof(uint64_t), NULL, 0, 0};
static struct staged *const STAGED[] = {&names, &devices, &kernels, &launches, &markers, &calls, &copies,
                                      &fills, &overheads, &lost};
enum { KINDS_STAGED = sizeof STAGED / sizeof STAGED[0] };

/* ---- writing ---- */

static void write_all(struct iovec *parts, int count)
{
    while (count > 0 && file >= 0) {
        ssize_t written = writev(file, parts, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) { /* full disk: what was written remains readable */
            close(file);
            file = -1;
            return;
        }
        while (count > 0 && (size_t)written >= parts->iov_len) {
            written -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
}

static void write_text(const char *kind, const char *text, size_t bytes)
{
    struct chunk head = {.bytes = bytes};
    memcpy(head.kind, kind, sizeof head.kind);
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)text, bytes}};
    write_all(parts, bytes ? 2 : 1);
}

/* Write everything staged, texts first, so that every number follows its text in the file. */
static void write_staged(void)
{
    struct chunk heads[KINDS_STAGED];
    struct iovec parts[2 * KINDS_STAGED];
    int count = 0;
    for (int i = 0; i < KINDS_STAGED; i++) {
        struct staged *one = STAGED[i];
        if (one->used == 0)
            continue;
        memcpy(heads[i].kind, one->kind, sizeof heads[i].kind);
        heads[i].record_bytes = one->record_bytes;
        heads[i].bytes = one->used;
        parts[count++] = (struct iovec){&heads[i], sizeof heads[i]};
        parts[count++] = (struct iovec){one->data, one->used};
        one->used = 0;
    }
    write_all(parts, count);
}

/* Space for `bytes` more; NULL if out of memory. */
static void *stage(struct staged *one, size_t bytes)
{
    if (one->used + bytes > one->room) {
        size_t room = 2 * (one->used + bytes) + 4096;
        char *data = realloc(one->data, room);
        if (!data)
            return NULL;
        one->data = data;
        one->room = room;
    }
    void *place = one->data + one->used;
    one->used += bytes;
    return place;
}

static void report(const char *call, CUptiResult result)
{
    const char *text = NULL;
    char line[300];
    cuptiGetResultString(result, &text);
    int length = snprintf(line, sizeof line, "%s: %s (%d)", call, text ? text : "?", (int)result);
    pthread_mutex_lock(&lock);
    write_text("FAIL", line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    pthread_mutex_unlock(&lock);
}

/* ---- texts by number ---- */

struct text {
    char *bytes;
    uint32_t length, hash, id; /* id 0: free */
};

static struct text *texts;
static uint32_t texts_room, texts_count;
enum { LONGEST_TEXT = 60000 };

static uint32_t hash_of(const char *text, uint32_t length)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

static bool more_room(void)
{
    uint32_t room = texts_room ? 2 * texts_room : 1024;
    struct text *bigger = calloc(room, sizeof *bigger);
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < texts_room; i++)
        if (texts[i].id) {
            uint32_t at = texts[i].hash & (room - 1);
            while (bigger[at].id)
                at = (at + 1) & (room - 1);
            bigger[at] = texts[i];
        }
    free(texts);
    texts = bigger;
    texts_room = room;
    return true;
}

/* The number of a text, which is staged if it is new; 0 for no text. */
static uint32_t number_of(const char *text)
{
    if (!text)
        return 0;
    uint32_t length = (uint32_t)strnlen(text, LONGEST_TEXT), hash = hash_of(text, length);
    if (2 * (texts_count + 1) > texts_room && !more_room())
        return 0;
    uint32_t at = hash & (texts_room - 1);
    for (; texts[at].id; at = (at + 1) & (texts_room - 1))
        if (texts[at].hash == hash && texts[at].length == length && !memcmp(texts[at].bytes, text, length))
            return texts[at].id;
    char *copy = malloc(length + 1u);
    char *place = copy ? stage(&names, sizeof(struct name) + length) : NULL;
    if (!place) {
        free(copy);
        return 0;
    }
    memcpy(copy, text, length);
    texts[at] = (struct text){copy, length, hash, ++texts_count};
    struct name head = {texts_count, length};
    memcpy(place, &head, sizeof head);
    memcpy(place + sizeof head, text, length);
    return texts_count;
}

/* ---- converting CUPTI's records to ours ---- */

static void take_kernel(const CUpti_Activity *record)
{
    const KernelRecord *from = (const KernelRecord *)record;
    uint32_t name = number_of(from->name);
    struct kernel *to = stage(&kernels, sizeof *to);
    if (!to)
        return;
    *to = (struct kernel){
        .start_ns = from->start,
        .end_ns = from->end,
        .graph_node = from->graphNodeId,
        .name = name,
        .device = from->deviceId,
        .context = from->contextId,
        .stream = from->streamId,
        .correlation = from->correlationId,
        .graph = from->graphId,
        .grid = {(uint32_t)from->gridX, (uint32_t)from->gridY, (uint32_t)from->gridZ},
        .block = {(uint32_t)from->blockX, (uint32_t)from->blockY, (uint32_t)from->blockZ},
        .cluster = {from->clusterX, from->clusterY, from->clusterZ},
        .registers = from->registersPerThread,
        .static_shared_bytes = (uint32_t)from->staticSharedMemory,
        .dynamic_shared_bytes = (uint32_t)from->dynamicSharedMemory,
        .local_bytes = from->localMemoryPerThread,
    };
}

static void take_device(const CUpti_Activity *record)
{
    const DeviceRecord *from = (const DeviceRecord *)record;
    uint32_t name = number_of(from->name);
    struct device *to = stage(&devices, sizeof *to);
    if (!to)
        return;
    *to = (struct device){
        .id = from->id,
        .name = name,
        .major = from->computeCapabilityMajor,
        .minor = from->computeCapabilityMinor,
        .multiprocessors = from->numMultiprocessors,
        .clock_khz = from->coreClockRate,
        .memory_bytes = from->globalMemorySize,
    };
    memcpy(to->uuid, &from->uuid, sizeof to->uuid);
}

static void take_marker(const CUpti_Activity *record)
{
    const CUpti_ActivityMarker2 *from = (const CUpti_ActivityMarker2 *)record;
    uint32_t name = number_of(from->name), domain = number_of(from->domain);
    struct marker *to = stage(&markers, sizeof *to);
    if (!to)
        return;
    *to = (struct marker){
        .time_ns = from->timestamp,
        .id = from->id,
        .flags = (uint32_t)from->flags,
        .name = name,
        .domain = domain,
        .object = (uint32_t)from->objectKind,
        .process = from->objectId.pt.processId,
        .thread = from->objectId.pt.threadId,
    };
}

static const CUpti_CallbackId RUNTIME_LAUNCHES[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunch_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunch_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernelMultiDevice_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
#if CUPTI_API_VERSION >= 130000
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
#endif
};
static const CUpti_CallbackId DRIVER_LAUNCHES[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_launch(CUpti_CallbackId cbid, bool driver)
{
    const CUpti_CallbackId *known = driver ? DRIVER_LAUNCHES : RUNTIME_LAUNCHES;
    size_t count = driver ? COUNT(DRIVER_LAUNCHES) : COUNT(RUNTIME_LAUNCHES);
    for (size_t i = 0; i < count; i++)
        if (known[i] == cbid)
            return true;
    return false;
}

/* The number of a function's name, which is requested from CUPTI only once. */
static uint32_t function_of(CUpti_CallbackId cbid, bool driver)
{
    static uint32_t known[2][2048];
    uint32_t *number = cbid < COUNT(known[0]) ? &known[driver][cbid] : NULL;
    if (number && *number)
        return *number;
    const char *name = NULL;
    CUpti_CallbackDomain domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
    if (cuptiGetCallbackName(domain, cbid, &name) != CUPTI_SUCCESS || !name)
        name = driver ? "cuUnknown" : "cudaUnknown";
    uint32_t found = number_of(name);
    if (number)
        *number = found;
    return found;
}

static void take_call_of_timeline(const CUpti_ActivityAPI *from, bool driver)
{
    uint32_t name = function_of(from->cbid, driver);
    struct call *to = stage(&calls, sizeof *to);
    if (!to)
        return;
    *to = (struct call){
        .start_ns = from->start,
        .end_ns = from->end,
        .correlation = from->correlationId,
        .thread = from->threadId,
        .name = name,
        .driver = driver,
    };
}

static void take_call(const CUpti_Activity *record)
{
    const CUpti_ActivityAPI *from = (const CUpti_ActivityAPI *)record;
    bool driver = from->kind == CUPTI_ACTIVITY_KIND_DRIVER;
    if (timeline)
        take_call_of_timeline(from, driver);
    if (!is_launch(from->cbid, driver))
        return;
    struct launch *to = stage(&launches, sizeof *to);
    if (!to)
        return;
    *to = (struct launch){
        .start_ns = from->start,
        .end_ns = from->end,
        .correlation = from->correlationId,
        .thread = from->threadId,
        .cbid = from->cbid,
        .driver = driver,
    };
}

static void take_copy(const CUpti_Activity *record)
{
    const CUpti_ActivityMemcpy5 *from = (const CUpti_ActivityMemcpy5 *)record;
    struct copy *to = stage(&copies, sizeof *to);
    if (!to)
        return;
    *to = (struct copy){
        .start_ns = from->start,
        .end_ns = from->end,
        .bytes = from->bytes,
        .device = from->deviceId,
        .context = from->contextId,
        .stream = from->streamId,
        .correlation = from->correlationId,
        .way = from->copyKind,
        .source = from->srcKind,
        .target = from->dstKind,
    };
}

/* A copy between two devices; it is assigned to the one whose copy engine did it. */
static void take_peer_copy(const CUpti_Activity *record)
{
    const CUpti_ActivityMemcpyPtoP4 *from = (const CUpti_ActivityMemcpyPtoP4 *)record;
    struct copy *to = stage(&copies, sizeof *to);
    if (!to)
        return;
    *to = (struct copy){
        .start_ns = from->start,
        .end_ns = from->end,
        .bytes = from->bytes,
        .device = from->deviceId,
        .context = from->contextId,
        .stream = from->streamId,
        .correlation = from->correlationId,
        .way = from->copyKind,
        .source = from->srcKind,
        .target = from->dstKind,
    };
}

static void take_fill(const CUpti_Activity *record)
{
    const CUpti_ActivityMemset4 *from = (const CUpti_ActivityMemset4 *)record;
    struct fill *to = stage(&fills, sizeof *to);
    if (!to)
        return;
    *to = (struct fill){
        .start_ns = from->start,
        .end_ns = from->end,
        .bytes = from->bytes,
        .device = from->deviceId,
        .context = from->contextId,
        .stream = from->streamId,
        .correlation = from->correlationId,
    };
}

static void take_overhead(const CUpti_Activity *record)
{
    const CUpti_ActivityOverhead *from = (const CUpti_ActivityOverhead *)record;
    struct overhead *to = stage(&overheads, sizeof *to);
    if (!to)
        return;
    *to = (struct overhead){
        .start_ns = from->start,
        .end_ns = from->end,
        .kind = (uint32_t)from->overheadKind,
        .object = from->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD,
        .process = from->objectId.pt.processId,
        .thread = from->objectId.pt.threadId,
    };
}

/* Only calls that launch, or all calls for a timeline: they show which thread launched a kernel, and when. */
static CUptiResult enable_launches(CUpti_ActivityKind kind)
{
    if (timeline)
        return cuptiActivityEnable(kind);
#if CUPTI_API_VERSION >= 24
    bool driver = kind == CUPTI_ACTIVITY_KIND_DRIVER;
    const CUpti_CallbackId *calls = driver ? DRIVER_LAUNCHES : RUNTIME_LAUNCHES;
    size_t count = driver ? COUNT(DRIVER_LAUNCHES) : COUNT(RUNTIME_LAUNCHES), failed = 0;
    CUptiResult last = CUPTI_SUCCESS;
    for (size_t i = 0; i < count; i++) {
        CUptiResult result = driver ? cuptiActivityEnableDriverApi(calls[i], 1)
                                    : cuptiActivityEnableRuntimeApi(calls[i], 1);
        if (result != CUPTI_SUCCESS) {
            failed++;
            last = result;
        }
    }
    return failed == count ? last : CUPTI_SUCCESS;
#else
    return cuptiActivityEnable(kind); /* all calls; those that do not launch are dropped later */
#endif
}

/* What is recorded: how it is enabled, and which function handles its records. */
static const struct kind {
    CUpti_ActivityKind kind;
    CUptiResult (*enable)(CUpti_ActivityKind);
    void (*take)(const CUpti_Activity *);
    const char *call;
    bool timelines; /* recorded only for timelines */
} KINDS[] = {
    {CUPTI_ACTIVITY_KIND_DEVICE, cuptiActivityEnable, take_device, "cuptiActivityEnable(DEVICE)", false},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, cuptiActivityEnable, take_kernel, "cuptiActivityEnable(CONCURRENT_KERNEL)",
     false},
    {CUPTI_ACTIVITY_KIND_MARKER, cuptiActivityEnable, take_marker, "cuptiActivityEnable(MARKER)", false},
    {CUPTI_ACTIVITY_KIND_RUNTIME, enable_launches, take_call, "enable launches of the runtime", false},
    {CUPTI_ACTIVITY_KIND_DRIVER, enable_launches, take_call, "enable launches of the driver", false},
    {CUPTI_ACTIVITY_KIND_MEMCPY, cuptiActivityEnable, take_copy, "cuptiActivityEnable(MEMCPY)", true},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, cuptiActivityEnable, take_peer_copy, "cuptiActivityEnable(MEMCPY2)", true},
    {CUPTI_ACTIVITY_KIND_MEMSET, cuptiActivityEnable, take_fill, "cuptiActivityEnable(MEMSET)", true},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, cuptiActivityEnable, take_overhead, "cuptiActivityEnable(OVERHEAD)", true},
};

static void take(const CUpti_Activity *record)
{
    for (size_t i = 0; i < COUNT(KINDS); i++)
        if (KINDS[i].kind == record->kind) {
            KINDS[i].take(record);
            return;
        }
}

/* ---- buffers ---- */

enum { BUFFER = 1 << 20, ALIGNMENT = 8 };

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *most_records)
{
    void *memory = NULL;
    *most_records = 0;
    *size = posix_memalign(&memory, ALIGNMENT, BUFFER) ? 0 : BUFFER;
    *buffer = memory;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)size;
    pthread_mutex_lock(&lock);
    CUpti_Activity *record = NULL;
    while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        take(record);
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0) {
        uint64_t *place = stage(&lost, sizeof *place);
        if (place)
            *place = dropped;
    }
    write_staged();
    pthread_mutex_unlock(&lock);
    free(buffer);
}

/* ---- requesting finished records, and the end ---- */

static void *flush_regularly(void *period_ms)
{
    long period = (long)(intptr_t)period_ms;
    pthread_mutex_lock(&waking);
    while (!ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (period % 1000) * 1000000;
        until.tv_sec += period / 1000 + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&wake, &waking, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&waking);
        cuptiActivityFlushAll(0);
        pthread_mutex_lock(&waking);
    }
    pthread_mutex_unlock(&waking);
    return NULL;
}

static void start_flusher(void)
{
    const char *text = getenv("ROOFLENS_RECORD_FLUSH_MS");
    long period = text ? strtol(text, NULL, 10) : 200;
    if (period <= 0)
        return;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sigset_t all, before; /* signals must go to the program's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    flushing = pthread_create(&flusher, NULL, flush_regularly, (void *)(intptr_t)period) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void finish(void)
{
    if (getpid() != owner || ending)
        return;
    pthread_mutex_lock(&waking);
    ending = true;
    if (flushing)
        pthread_cond_signal(&wake);
    pthread_mutex_unlock(&waking);
    if (flushing)
        pthread_join(flusher, NULL);
    CUptiResult result = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (result != CUPTI_SUCCESS)
        report("cuptiActivityFlushAll", result);
    pthread_mutex_lock(&lock);
    write_staged();
    if (result == CUPTI_SUCCESS)
        write_text("DONE", "", 0);
    pthread_mutex_unlock(&lock);
}

/* ---- start ---- */

static const char *const PASSED_ON[] = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID", "CUDA_VISIBLE_DEVICES"};

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void write_info(uint32_t library)
{
    char text[8192], host[256] = "";
    uint64_t stamp = 0;
    gethostname(host, sizeof host - 1);
    cuptiGetTimestamp(&stamp);
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "headers=%d\nlibrary=%u\nprocess=%ld\nparent=%ld\nhost=%s\ntimestamp_ns=%llu\nrealtime_ns=%llu\n"
        "monotonic_ns=%llu\ntimeline=%d\n",
        CUPTI_API_VERSION, library, (long)getpid(), (long)getppid(), host, (unsigned long long)stamp,
        (unsigned long long)nanoseconds(CLOCK_REALTIME), (unsigned long long)nanoseconds(CLOCK_MONOTONIC), timeline);
    for (size_t i = 0; i < COUNT(PASSED_ON); i++) {
        const char *value = getenv(PASSED_ON[i]);
        size_t needed = value ? strlen(PASSED_ON[i]) + strlen(value) + 3 : 0;
        if (value && !strchr(value, '\n') && used + needed < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s=%s\n", PASSED_ON[i], value);
    }
    write_text("INFO", text, used);
}

/* Create a new file that starts with the text that all files begin with. */
static bool open_file(void)
{
    const char *folder = getenv("ROOFLENS_RECORD_DIR");
    char host[256] = "host", path[4096];
    if (!folder || folder[0] != '/')
        return false;
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '-';
    for (int again = 0; again < 100 && file < 0; again++) {
        char number[16] = "";
        if (again)
            snprintf(number, sizeof number, "_%d", again);
        int length = snprintf(path, sizeof path, "%s/%s_%ld%s.record", folder, host, (long)getpid(), number);
        if (length < 0 || (size_t)length >= sizeof path)
            return false;
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0 && errno != EEXIST)
            return false;
    }
    struct iovec magic = {(void *)MAGIC, sizeof MAGIC};
    write_all(&magic, 1);
    return file >= 0;
}

/* Called by the driver during its initialisation. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static bool begun;
    if (begun || !open_file())
        return 1;
    begun = true;
    const char *asked = getenv("ROOFLENS_RECORD_TIMELINE");
    timeline = asked && !strcmp(asked, "1");
    owner = getpid();
    uint32_t library = 0;
    CUptiResult result = cuptiGetVersion(&library);
    write_info(library);
    if (result != CUPTI_SUCCESS)
        report("cuptiGetVersion", result);
    else if (library < OLDEST_LIBRARY) {
        static const char TOO_OLD[] = "libcupti is older than that of CUDA 11.8";
        write_text("FAIL", TOO_OLD, sizeof TOO_OLD - 1);
        return 1;
    }
    result = cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    if (result != CUPTI_SUCCESS)
        report("cuptiSetThreadIdType", result);
    result = cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
    if (result != CUPTI_SUCCESS) {
        report("cuptiActivityRegisterCallbacks", result);
        return 1;
    }
    for (size_t i = 0; i < COUNT(KINDS); i++) {
        if (KINDS[i].timelines && !timeline)
            continue;
        result = KINDS[i].enable(KINDS[i].kind);
        if (result != CUPTI_SUCCESS)
            report(KINDS[i].call, result);
    }
    atexit(finish);
    at_quick_exit(finish);
    start_flusher();
    return 1;
}
