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
 *     INFO  lines key=value: versions, process, clocks, ranks; at the end another one with the clocks again
 *     NAME  texts that other chunks refer to by number: struct name and its bytes, without a terminating zero
 *     DEVC  struct device     KERN  struct kernel     LNCH  struct launch     MARK  struct marker
 *     CALL  struct call       COPY  struct copy       FILL  struct fill       OVHD  struct overhead   (timelines only)
 *     SITE  struct site       NODE  struct node       FRAM  struct frame                         (host stacks only)
 *     LOST  uint64, number of records that CUPTI reports as dropped
 *     FAIL  text: a CUPTI call that failed
 *     DONE  empty: the program ended normally and everything was delivered
 *
 * Readers skip unknown chunks. The fields of a struct are stored in order, without padding.
 *
 * The table `kinds` below lists what is recorded. ROOFLENS_RECORD_TIMELINE=1 adds all runtime and driver calls, copies,
 * fills, and CUPTI's own overhead. ROOFLENS_RECORD_STACKS=1 adds where the program made its calls: a site is a call
 * that launches, copies, fills, waits, allocates, frees or loads a module, and refers to a node of a tree of frames.
 * The frames on the way from the node to the root are the stack, innermost first. ROOFLENS_RECORD_FLUSH_MS sets how
 * often finished records are requested (default 200): a program that a signal ends loses no more than that. Calls of
 * _exit, as by os._exit, are replaced by one that delivers everything first.
 *
 * Nothing here may stop or change the program: if anything fails, it continues without being recorded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <cupti_activity.h>
#include <cupti_callbacks.h>
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

struct frame {
    uint32_t id, function, file, line; /* of native frames only the function, and only if its module exports it */
    uint32_t kind, module;             /* enum frame_kind; path of the file that contains native code */
    uint64_t address;                  /* native frames: where the call returns to, as an address of the ELF file */
};

struct node {
    uint32_t id, parent, frame; /* parent: a node, or 0 */
    uint32_t reserved;
};

struct site {
    uint32_t correlation, thread, node;
    uint32_t reserved;
};

enum frame_kind { PYTHON_FRAME = 1, NATIVE_FRAME = 2 };

_Static_assert(sizeof(struct frame) == 32 && sizeof(struct node) == 16, "the reader knows these sizes");
_Static_assert(sizeof(struct site) == 16, "the reader knows these sizes");
_Static_assert(sizeof(struct call) == 32 && sizeof(struct copy) == 56, "the reader knows these sizes");
_Static_assert(sizeof(struct fill) == 40 && sizeof(struct overhead) == 32, "the reader knows these sizes");
_Static_assert(sizeof(struct kernel) == 104 && sizeof(struct launch) == 32, "the reader knows these sizes");
_Static_assert(sizeof(struct marker) == 40 && sizeof(struct device) == 48, "the reader knows these sizes");

static const char MAGIC[8] = "RFLREC1\n";

/* ---- state; everything below `lock` is protected by it ---- */

static bool timeline; /* whether a full timeline is recorded */
static pid_t owner; /* a forked child inherits this state, but neither CUPTI nor the threads */
static int file = -1;
static char recording[PATH_MAX]; /* its path without the suffix */
enum { LARGEST_MODULE = 64 << 20 };
static pthread_t flusher;
static bool flushing;
static atomic_bool ending; /* the program ends: what is left is being delivered */
static atomic_bool leaving, delivered; /* it called _exit, and the flusher delivers */
static sem_t wake;
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

/* Host stacks are staged by the program's own threads, during their calls. They have a lock of their own, because those
 * threads must never wait for a file, nor for a thread that waits for CUPTI. Who holds both locks took `lock` first.
 * What is staged is moved to the second array, which is protected by `lock`, when it is written. */
static pthread_mutex_t stack_lock = PTHREAD_MUTEX_INITIALIZER;
enum { STACK_NAMES, FRAMES, NODES, SITES, KINDS_OF_STACKS };
static struct staged stacks[KINDS_OF_STACKS];
static struct staged stacks_moved[KINDS_OF_STACKS] = {{"NAME", 0, NULL, 0, 0},
                                                      {"FRAM", sizeof(struct frame), NULL, 0, 0},
                                                      {"NODE", sizeof(struct node), NULL, 0, 0},
                                                      {"SITE", sizeof(struct site), NULL, 0, 0}};

static struct staged *const STAGED[] = {&names, &devices, &kernels, &launches, &markers, &calls, &copies,
                                        &fills, &overheads, &lost, &stacks_moved[STACK_NAMES], &stacks_moved[FRAMES],
                                        &stacks_moved[NODES], &stacks_moved[SITES]};
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

static void move_stacks(void)
{
    pthread_mutex_lock(&stack_lock);
    for (int i = 0; i < KINDS_OF_STACKS; i++) {
        struct staged *from = &stacks[i], *to = &stacks_moved[i], before = *to;
        to->data = from->data, to->used = from->used, to->room = from->room;
        from->data = before.data, from->used = 0, from->room = before.room;
    }
    pthread_mutex_unlock(&stack_lock);
}

/* Write everything staged, texts first, so that every number follows its text in the file. */
static void write_staged(void)
{
    struct chunk heads[KINDS_STAGED];
    struct iovec parts[2 * KINDS_STAGED];
    int count = 0;
    move_stacks();
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

static void report_text(const char *text)
{
    pthread_mutex_lock(&lock);
    write_text("FAIL", text, strlen(text));
    pthread_mutex_unlock(&lock);
}

static void report(const char *call, CUptiResult result)
{
    const char *text = NULL;
    char line[300];
    cuptiGetResultString(result, &text);
    snprintf(line, sizeof line, "%s: %s (%d)", call, text ? text : "?", (int)result);
    report_text(line);
}

/* ---- texts by number ---- */

struct text {
    char *bytes;
    uint32_t length, hash, id; /* id 0: free */
};

/* Texts with their numbers, which are counted from `above` + 1. */
struct texts {
    struct staged *staged;
    uint32_t above;
    struct text *slots;
    uint32_t room, count;
};

static struct texts texts = {&names, 0, NULL, 0, 0};
static struct texts stack_texts = {&stacks[STACK_NAMES], 1u << 31, NULL, 0, 0}; /* protected by stack_lock */
enum { LONGEST_TEXT = 60000 };

static uint32_t hash_of(const char *text, uint32_t length)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

static bool more_room(struct texts *in)
{
    uint32_t room = in->room ? 2 * in->room : 1024;
    struct text *bigger = calloc(room, sizeof *bigger);
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < in->room; i++)
        if (in->slots[i].id) {
            uint32_t at = in->slots[i].hash & (room - 1);
            while (bigger[at].id)
                at = (at + 1) & (room - 1);
            bigger[at] = in->slots[i];
        }
    free(in->slots);
    in->slots = bigger;
    in->room = room;
    return true;
}

/* The number of a text, which is staged if it is new; 0 for no text. */
static uint32_t number_in(struct texts *in, const char *text)
{
    if (!text)
        return 0;
    uint32_t length = (uint32_t)strnlen(text, LONGEST_TEXT), hash = hash_of(text, length);
    if (2 * (in->count + 1) > in->room && !more_room(in))
        return 0;
    uint32_t at = hash & (in->room - 1);
    for (; in->slots[at].id; at = (at + 1) & (in->room - 1)) {
        const struct text *known = &in->slots[at];
        if (known->hash == hash && known->length == length && !memcmp(known->bytes, text, length))
            return known->id;
    }
    char *copy = malloc(length + 1u);
    char *place = copy ? stage(in->staged, sizeof(struct name) + length) : NULL;
    if (!place) {
        free(copy);
        return 0;
    }
    memcpy(copy, text, length);
    struct name head = {in->above + ++in->count, length};
    in->slots[at] = (struct text){copy, length, hash, head.id};
    memcpy(place, &head, sizeof head);
    memcpy(place + sizeof head, text, length);
    return head.id;
}

static uint32_t number_of(const char *text)
{
    return number_in(&texts, text);
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

/* Calls that only ask the runtime for its state. Frameworks make several of them for each launch, nine tenths of all calls
 * of a training in PyTorch, and none of them matters unless it takes long (the first one may initialise the device). */
static const char *const QUERIES[] = {
    "cudaGetDevice", "cudaGetLastError", "cudaPeekAtLastError", "cudaStreamIsCapturing", "cudaStreamGetCaptureInfo",
    "cudaGetDeviceCount", "cudaGetDeviceProperties", "cudaDeviceGetAttribute", "cuDevicePrimaryCtxGetState",
    "cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute", "cuKernelGetName", "cuKernelGetFunction",
    "cuKernelGetAttribute", "cuFuncGetName", "cuFuncGetAttribute", "cuStreamIsCapturing", "cuStreamGetCaptureInfo",
    "cuPointerGetAttribute", "cuPointerGetAttributes", "cudaPointerGetAttributes",
};
enum { SHORT_QUERY_NS = 50000 };

static bool is_query(CUpti_CallbackId cbid, bool driver)
{
    enum { UNKNOWN, QUERY, OTHER };
    static uint8_t known[2][2048];
    if (cbid >= COUNT(known[0]))
        return false;
    uint8_t *found = &known[driver][cbid];
    if (*found == UNKNOWN) {
        const char *name = NULL;
        CUpti_CallbackDomain domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
        *found = OTHER;
        if (cuptiGetCallbackName(domain, cbid, &name) == CUPTI_SUCCESS && name)
            for (size_t i = 0; i < COUNT(QUERIES); i++) {
                size_t length = strlen(QUERIES[i]);
                /* versions of a function end in _v3020 or _ptsz */
                if (!strncmp(name, QUERIES[i], length) && (name[length] == 0 || name[length] == '_'))
                    *found = QUERY;
            }
    }
    return *found == QUERY;
}

static void take_call_of_timeline(const CUpti_ActivityAPI *from, bool driver)
{
    if (is_query(from->cbid, driver) && from->end - from->start < SHORT_QUERY_NS)
        return;
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

/* ---- host stacks: where a frame is ---- */

static atomic_bool taking_stacks;

/* What identifies a frame. The code object of a Python function can be freed and another one created at its address, so
 * what it says about itself is included. */
struct place {
    uintptr_t code, instruction, file; /* of a native frame only the code: where the call returns to */
    int32_t first_line;
    uint32_t parent; /* node of the caller, where nodes are looked up */
};

struct numbered {
    struct place place;
    uint32_t id; /* 0: free */
};

struct places {
    struct numbered *slots;
    uint32_t room, count;
};

static struct places known_frames, known_nodes; /* protected by stack_lock */
enum { MOST_PLACES = 1 << 21, LEFT_OUT = -1 };

static uint32_t hash_of_place(const struct place *place)
{
    uint64_t mixed = place->code ^ (place->instruction << 7) ^ place->file ^ (uint32_t)place->first_line;
    mixed = (mixed + place->parent) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(mixed >> 32);
}

static bool more_places(struct places *in)
{
    uint32_t room = in->room ? 2 * in->room : 4096;
    struct numbered *bigger = room <= MOST_PLACES ? calloc(room, sizeof *bigger) : NULL;
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < in->room; i++)
        if (in->slots[i].id) {
            uint32_t at = hash_of_place(&in->slots[i].place) & (room - 1);
            while (bigger[at].id)
                at = (at + 1) & (room - 1);
            bigger[at] = in->slots[i];
        }
    free(in->slots);
    in->slots = bigger;
    in->room = room;
    return true;
}

/* The slot of a place; if the place is new, its id is 0 and must be set. NULL if there is no more room. */
static struct numbered *look_up(struct places *in, const struct place *place)
{
    if (2 * (in->count + 1) > in->room && !more_places(in))
        return NULL;
    uint32_t at = hash_of_place(place) & (in->room - 1);
    for (; in->slots[at].id; at = (at + 1) & (in->room - 1)) {
        const struct place *known = &in->slots[at].place;
        if (known->instruction == place->instruction && known->parent == place->parent && known->code == place->code &&
            known->file == place->file && known->first_line == place->first_line)
            break;
    }
    if (!in->slots[at].id)
        in->slots[at].place = *place;
    return &in->slots[at];
}

/* ---- host stacks: Python ---- */

/* Where CPython stores what is read of its threads, frames and code objects: byte offsets. */
struct python {
    void *(*thread_state)(void);           /* of the calling thread; needs no lock */
    int (*line_of)(void *code, int offset); /* reads the table of lines only */
    uintptr_t code_type, text_type;
    size_t frame, frame_of_cframe; /* 3.11 and 3.12 store the innermost frame in a struct that a thread refers to */
    size_t code, previous, instruction, owner;
    size_t file, function, first_line, bytecode;
    size_t ascii; /* size of the header of a text of ASCII characters */
};

enum { NO_CFRAME = -1, SHIM_OWNER = 3, TYPE_OFFSET = 8, LENGTH_OFFSET = 16, STATE_OFFSET = 32, MOST_FRAMES = 128 };

/* Offsets in Include/cpython/pystate.h, Include/cpython/code.h and Include/internal/pycore_frame.h of each version.
 * They do not change within a version. */
static const struct python PYTHON_3_11 = {.frame = 56, .frame_of_cframe = 8, .code = 32, .previous = 48,
                                          .instruction = 56, .owner = 69, .file = 112, .function = 128,
                                          .first_line = 72, .bytecode = 184, .ascii = 48};
static const struct python PYTHON_3_12 = {.frame = 56, .frame_of_cframe = 0, .code = 0, .previous = 8,
                                          .instruction = 56, .owner = 70, .file = 112, .function = 128,
                                          .first_line = 68, .bytecode = 192, .ascii = 40};
static struct python python; /* thread_state is NULL if the program has no Python, or one that is not known */

static uintptr_t word_at(uintptr_t object, size_t offset)
{
    return *(const uintptr_t *)(object + offset);
}

/* Read the offsets that Python 3.13 and 3.14 state for debuggers, in _Py_DebugOffsets: 64-bit numbers in groups, some
 * of which grew in 3.14. */
static bool read_offsets(const uint64_t *stated, bool newer)
{
    if (!stated || memcmp(stated, "xdebugpy", 8) || stated[2]) /* [2]: without a global lock, code is in other places */
        return false;
    const uint64_t *thread = stated + (newer ? 22 : 19), *frame = thread + 9, *code = frame + (newer ? 8 : 6);
    python = (struct python){.frame = thread[4], .frame_of_cframe = (size_t)NO_CFRAME, .code = frame[2],
                             .previous = frame[1], .instruction = frame[3], .owner = frame[5], .file = code[1],
                             .function = code[3], .first_line = code[5], .bytecode = code[9], .ascii = 40};
    return true;
}

static void find_python(void)
{
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion");
    const unsigned long *number = dlsym(RTLD_DEFAULT, "Py_Version"); /* since 3.11 */
    if (!version)
        return;
    unsigned long minor = number ? *number >> 16 : 0;
    bool newer = minor == 0x030e;
    bool known = true;
    if (minor == 0x030b)
        python = PYTHON_3_11;
    else if (minor == 0x030c)
        python = PYTHON_3_12;
    else
        known = (minor == 0x030d || newer) && read_offsets(dlsym(RTLD_DEFAULT, "_PyRuntime"), newer);
    python.line_of = (int (*)(void *, int))dlsym(RTLD_DEFAULT, "PyCode_Addr2Line");
    python.code_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
    python.text_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyUnicode_Type");
    if (known && python.line_of && python.code_type && python.text_type)
        python.thread_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    if (!python.thread_state) {
        char text[200];
        snprintf(text, sizeof text, "stacks of this Python cannot be read: %.100s", version());
        report_text(text);
    }
}

/* The Python frames of the calling thread, innermost first. They do not change during the call. Nothing is allocated
 * and no reference is taken, so the thread need not hold Python's global lock. */
static int python_frames(struct place *places)
{
    uintptr_t thread = python.thread_state ? (uintptr_t)python.thread_state() : 0;
    uintptr_t frame = thread ? word_at(thread, python.frame) : 0;
    if (frame && python.frame_of_cframe != (size_t)NO_CFRAME)
        frame = word_at(frame, python.frame_of_cframe);
    int count = 0;
    for (; frame && count < MOST_FRAMES; frame = word_at(frame, python.previous)) {
        if (*(const unsigned char *)(frame + python.owner) >= SHIM_OWNER) /* the interpreter's own */
            continue;
        uintptr_t code = word_at(frame, python.code) & ~(uintptr_t)3; /* 3.14 marks references in the lowest bits */
        uintptr_t instruction = word_at(frame, python.instruction);
        if (!code || word_at(code, TYPE_OFFSET) != python.code_type || instruction < code + python.bytecode)
            continue; /* not yet begun */
        places[count++] = (struct place){code, instruction, word_at(code, python.file),
                                         *(const int *)(code + python.first_line), 0};
    }
    return count;
}

static size_t put_utf8(char *to, uint32_t character)
{
    if (character < 0x80) {
        to[0] = (char)character;
        return 1;
    }
    size_t more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned char FIRST[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(FIRST[more] | (character >> (6 * more)));
    for (size_t i = 1; i <= more; i++)
        to[i] = (char)(0x80 | ((character >> (6 * (more - i))) & 0x3f));
    return more + 1;
}

/* Copy a Python text as UTF-8; empty if it is not stored in one piece. */
static void copy_text(uintptr_t object, char *to, size_t room)
{
    size_t used = 0;
    if (object && word_at(object, TYPE_OFFSET) == python.text_type) {
        uint32_t state = *(const uint32_t *)(object + STATE_OFFSET), width = state >> 2 & 7;
        bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
        uintptr_t at = object + python.ascii + (ascii ? 0 : python.ascii == 48 ? 24 : 16);
        size_t length = compact ? word_at(object, LENGTH_OFFSET) : 0;
        for (size_t i = 0; i < length && used + 5 < room; i++, at += width)
            used += put_utf8(to + used, width == 1   ? *(const uint8_t *)at
                                        : width == 2 ? *(const uint16_t *)at
                                                     : *(const uint32_t *)at);
    }
    to[used] = 0;
}

static uint32_t add_frame(struct numbered *known, struct frame frame)
{
    struct frame *to = stage(&stacks[FRAMES], sizeof *to);
    if (!to)
        return 0;
    frame.id = known->id = ++known_frames.count;
    *to = frame;
    return frame.id;
}

static uint32_t python_frame(const struct place *place)
{
    struct numbered *known = look_up(&known_frames, place);
    if (!known || known->id)
        return known ? known->id : 0;
    char file_name[PATH_MAX], function[1000];
    copy_text(place->file, file_name, sizeof file_name);
    copy_text(word_at(place->code, python.function), function, sizeof function);
    int line = python.line_of((void *)place->code, (int)(place->instruction - place->code - python.bytecode));
    return add_frame(known, (struct frame){.function = number_in(&stack_texts, function),
                                           .file = number_in(&stack_texts, file_name),
                                           .line = line > 0 ? (uint32_t)line : 0,
                                           .kind = PYTHON_FRAME});
}

/* The node of a frame below its caller's; `frame` is its number, or 0 for a Python frame. 0 if there is no room. */
static uint32_t node_below(uint32_t parent, struct place place, uint32_t frame)
{
    place.parent = parent;
    struct numbered *known = look_up(&known_nodes, &place);
    if (!known || known->id)
        return known ? known->id : 0;
    place.parent = 0;
    frame = frame ? frame : python_frame(&place);
    struct node *to = frame ? stage(&stacks[NODES], sizeof *to) : NULL;
    if (!to)
        return 0;
    known->id = ++known_nodes.count;
    *to = (struct node){.id = known->id, .parent = parent, .frame = frame};
    return known->id;
}

/* ---- host stacks: native code ---- */

enum { MOST_NATIVE = 24, MOST_WALKED = 64, WAYS = 32, SETS = 64 };

/* A stack that was unwound: where on the stack its return addresses are. If they are all still there when a call is
 * made from the same depth, then it is the same stack. They are compared from the innermost on, so that none is read
 * that does not belong to a frame that exists. */
struct walk {
    uintptr_t top; /* the recorder's own frame */
    uintptr_t slots[MOST_WALKED], addresses[MOST_WALKED];
    uint32_t function, node;
    int count;
    bool complete; /* all return addresses were found on the stack */
};

static struct walk *walks; /* WAYS for each of SETS; protected by stack_lock */
static uint32_t walks_next;
static const void *own_base;
static __typeof__(&_Unwind_Backtrace) unwind;
static __typeof__(&_Unwind_GetIP) address_of;
static __typeof__(&_Unwind_GetCFA) end_of;

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *to)
{
    struct walk *walk = to;
    uintptr_t address = address_of(context), end = end_of(context);
    if (walk->count == MOST_WALKED || !address)
        return _URC_END_OF_STACK;
    if (end <= walk->top + sizeof address) /* the recorder's */
        return _URC_NO_REASON;
    uintptr_t low = walk->count ? walk->slots[walk->count - 1] + sizeof low : walk->top, slot = end;
    do
        slot -= sizeof slot;
    while (slot > low && *(const uintptr_t *)slot != address);
    if (slot < low || *(const uintptr_t *)slot != address) {
        walk->complete = false;
        slot = low;
    }
    walk->slots[walk->count] = slot;
    walk->addresses[walk->count++] = address;
    return _URC_NO_REASON;
}

static struct walk *same_walk(uintptr_t top, uint32_t function)
{
    struct walk *set = walks + WAYS * ((top >> 4 ^ function * 7) % SETS);
    for (struct walk *one = set; one < set + WAYS; one++) {
        if (one->top != top || one->function != function)
            continue;
        int same = 0;
        while (same < one->count && *(const uintptr_t *)one->slots[same] == one->addresses[same])
            same++;
        if (same == one->count)
            return one;
    }
    return NULL;
}

/* Copy a file with native code of the program to a place beside the recording: builds are often removed before their
 * addresses are looked up. Files of the system and of Python packages last, and large ones are not worth it. */
static void keep_module(const char *path, uint32_t id)
{
    static const char *const LASTING[] = {"/usr/", "/lib", "/opt/", "/proc/"};
    char kept[PATH_MAX];
    struct stat state;
    for (size_t i = 0; i < COUNT(LASTING); i++)
        if (!strncmp(path, LASTING[i], strlen(LASTING[i])))
            return;
    int length = snprintf(kept, sizeof kept, "%s.%u.module", recording, id);
    if (strstr(path, "/site-packages/") || length < 0 || (size_t)length >= sizeof kept)
        return;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), to = -1;
    if (from >= 0 && !fstat(from, &state) && S_ISREG(state.st_mode) && state.st_size <= LARGEST_MODULE)
        to = open(kept, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    for (off_t at = 0; to >= 0 && at < state.st_size;)
        if (sendfile(to, from, &at, (size_t)(state.st_size - at)) <= 0)
            break;
    if (to >= 0)
        close(to);
    if (from >= 0)
        close(from);
}

/* The number of the path of a module, whose file is kept if it is new. */
static uint32_t module_number(const char *path)
{
    uint32_t known = stack_texts.count, id = number_in(&stack_texts, path);
    if (stack_texts.count > known)
        keep_module(path, id);
    return id;
}

/* Whether a module lies between the program and the recorder. */
static bool is_of_cuda(const char *path, const void *base)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return base == own_base || !strncmp(name, "libcupti", 8) || !strncmp(name, "libcuda.", 8) ||
           !strncmp(name, "libcudart", 9) || !strncmp(name, "libcuda-", 8);
}

/* The number of a native frame, LEFT_OUT or 0. The loader is asked without stack_lock, because a thread that loads a
 * library can hold the loader's lock while it makes a call. */
static uint32_t native_frame(uintptr_t address)
{
    const struct place place = {.code = address};
    pthread_mutex_lock(&stack_lock);
    struct numbered *known = look_up(&known_frames, &place);
    uint32_t frame = known ? known->id : 0;
    pthread_mutex_unlock(&stack_lock);
    if (!known || frame)
        return frame;
    Dl_info found = {0};
    struct link_map *module = NULL;
    char path[PATH_MAX] = "";
    /* The call itself, because after the last call of a function begins another function. */
    if (dladdr1((void *)(address - 1), &found, (void **)&module, RTLD_DL_LINKMAP) && module) {
        const char *name = module->l_name[0] ? module->l_name : "/proc/self/exe";
        if (!realpath(name, path))
            snprintf(path, sizeof path, "%s", name);
    }
    pthread_mutex_lock(&stack_lock);
    known = look_up(&known_frames, &place);
    if (known && known->id)
        frame = known->id;
    else if (known && is_of_cuda(path, found.dli_fbase)) {
        frame = known->id = (uint32_t)LEFT_OUT;
        known_frames.count++;
    } else if (known)
        frame = add_frame(known, (struct frame){.function = number_in(&stack_texts, found.dli_sname),
                                                .kind = NATIVE_FRAME,
                                                .module = path[0] ? module_number(path) : 0,
                                                .address = address - (module ? module->l_addr : 0)});
    pthread_mutex_unlock(&stack_lock);
    return frame;
}

/* The node of the calling thread's native stack, whose innermost frames are MOST_NATIVE of the program. */
static uint32_t native_node(uintptr_t top, uint32_t function)
{
    if (!unwind || !walks)
        return 0;
    pthread_mutex_lock(&stack_lock);
    struct walk *known = same_walk(top, function);
    uint32_t node = known ? known->node : 0;
    pthread_mutex_unlock(&stack_lock);
    if (known)
        return node;
    struct walk walk = {.top = top, .function = function, .complete = true};
    unwind(on_frame, &walk);
    uint32_t frames[MOST_WALKED];
    int kept = 0, used = 0;
    for (; used < walk.count && kept < MOST_NATIVE; used++) {
        frames[used] = native_frame(walk.addresses[used]);
        if (!frames[used])
            return 0;
        kept += frames[used] != (uint32_t)LEFT_OUT;
    }
    walk.count = used;
    pthread_mutex_lock(&stack_lock);
    for (int i = used; i-- > 0;) {
        if (frames[i] == (uint32_t)LEFT_OUT)
            continue;
        node = node_below(node, (struct place){.code = walk.addresses[i]}, frames[i]);
        if (!node)
            break;
    }
    walk.node = node;
    if (node && walk.complete)
        walks[WAYS * ((top >> 4 ^ function * 7) % SETS) + walks_next++ % WAYS] = walk;
    pthread_mutex_unlock(&stack_lock);
    return node;
}

static void find_unwinder(void)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    Dl_info found = {0};
    if (dladdr((void *)&own_base, &found))
        own_base = found.dli_fbase;
    if (library) {
        address_of = (__typeof__(address_of))dlsym(library, "_Unwind_GetIP");
        end_of = (__typeof__(end_of))dlsym(library, "_Unwind_GetCFA");
        unwind = (__typeof__(unwind))dlsym(library, "_Unwind_Backtrace");
    }
    walks = calloc(WAYS * SETS, sizeof *walks);
    if (!unwind || !address_of || !end_of || !walks) {
        unwind = NULL;
        report_text("stacks of native code cannot be read: libgcc_s.so.1 has no unwinder");
        return;
    }
    struct walk first = {.top = (uintptr_t)__builtin_frame_address(0)};
    unwind(on_frame, &first); /* what it prepares at the first call is done here, not in a call of the program */
}

/* ---- host stacks: calls ---- */

/* Beginnings of the names of the functions whose calls have a site. */
static const char *const RUNTIME_SITES[] = {
    "cudaLaunch", "__cudaLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset", "cudaMemPrefetch",
    "cudaDeviceSynchronize", "cudaThreadSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaLibraryLoad", NULL};
static const char *const DRIVER_SITES[] = {
    "cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuCtxSynchronize", "cuStreamSynchronize",
    "cuEventSynchronize", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemCreate", "cuMemRelease", "cuMemMap",
    "cuMemUnmap", "cuMemAddress", "cuMemSetAccess", "cuModuleLoad", "cuLibraryLoad", NULL};
enum { MOST_FUNCTIONS = 2048 };

/* Add the site of a call, whose stack ends above `top`. */
static void add_site(uint32_t correlation, uint32_t thread, uint32_t function, uintptr_t top)
{
    struct place places[MOST_FRAMES];
    int count = python_frames(places);
    uint32_t node = count ? 0 : native_node(top, function);
    if (!count && !node)
        return;
    pthread_mutex_lock(&stack_lock);
    for (int i = count; i-- > 0;)
        if (!(node = node_below(node, places[i], 0)))
            break;
    struct site *to = node ? stage(&stacks[SITES], sizeof *to) : NULL;
    if (to)
        *to = (struct site){.correlation = correlation, .thread = thread, .node = node};
    pthread_mutex_unlock(&stack_lock);
}

/* Called by CUPTI on the calling thread when a call begins and ends. */
static void CUPTIAPI on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
    static __thread uint32_t depth, thread; /* depth: calls of the runtime that the thread is in */
    const CUpti_CallbackData *call = data;
    bool driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
    (void)unused;
    if (call->callbackSite != CUPTI_API_ENTER) {
        depth -= !driver && depth; /* recording can begin within a call */
        return;
    }
    if ((driver ? depth : depth++) || !taking_stacks)
        return;
    int before = errno;
    if (!thread)
        thread = (uint32_t)syscall(SYS_gettid);
    add_site(call->correlationId, thread, 2 * cbid + driver, (uintptr_t)__builtin_frame_address(0));
    errno = before;
}

static bool begins_with_any(const char *name, const char *const *beginnings)
{
    for (; *beginnings; beginnings++)
        if (!strncmp(name, *beginnings, strlen(*beginnings)))
            return true;
    return false;
}

/* A forked child has a copy of stack_lock that another thread may have held. */
static void stop_stacks(void)
{
    taking_stacks = false;
}

static void start_stacks(void)
{
    CUpti_SubscriberHandle subscriber;
    CUptiResult result = cuptiSubscribe(&subscriber, on_call, NULL);
    if (result != CUPTI_SUCCESS) { /* another tool in the program has subscribed: there can be only one */
        report("cuptiSubscribe", result);
        return;
    }
    find_python();
    find_unwinder();
    CUptiResult failure = CUPTI_SUCCESS;
    for (int driver = 0; driver < 2; driver++) {
        CUpti_CallbackDomain domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
        for (uint32_t cbid = 1; cbid < MOST_FUNCTIONS; cbid++) {
            const char *name = NULL;
            if (cuptiGetCallbackName(domain, cbid, &name) != CUPTI_SUCCESS || !name ||
                !begins_with_any(name, driver ? DRIVER_SITES : RUNTIME_SITES))
                continue;
            result = cuptiEnableCallback(1, subscriber, domain, cbid);
            failure = result == CUPTI_SUCCESS ? failure : result;
        }
    }
    if (failure != CUPTI_SUCCESS)
        report("cuptiEnableCallback", failure);
    pthread_atfork(NULL, NULL, stop_stacks);
    taking_stacks = true;
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

static void deliver(void);

static void *flush_regularly(void *period_ms)
{
    long period = (long)(intptr_t)period_ms;
    while (!ending) {
        struct timespec until; /* the clock of sem_timedwait can be set, which only moves a flush */
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (period % 1000) * 1000000;
        until.tv_sec += period / 1000 + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!sem_timedwait(&wake, &until) || errno != ETIMEDOUT)
            continue;
        cuptiActivityFlushAll(0);
        if (taking_stacks) { /* also if CUPTI delivered nothing */
            pthread_mutex_lock(&lock);
            write_staged();
            pthread_mutex_unlock(&lock);
        }
    }
    if (leaving) {
        deliver();
        delivered = true;
    }
    return NULL;
}

static void start_flusher(void)
{
    const char *text = getenv("ROOFLENS_RECORD_FLUSH_MS");
    long period = text ? strtol(text, NULL, 10) : 200;
    if (period <= 0 || sem_init(&wake, 0, 0))
        return;
    sigset_t all, before; /* signals must go to the program's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    flushing = pthread_create(&flusher, NULL, flush_regularly, (void *)(intptr_t)period) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The clocks once more, so that a reader can see how far they drifted apart. */
static void write_end_of_clocks(void)
{
    char text[200];
    uint64_t stamp = 0;
    cuptiGetTimestamp(&stamp);
    int length = snprintf(text, sizeof text, "timestamp_end_ns=%llu\nrealtime_end_ns=%llu\nmonotonic_end_ns=%llu\n",
                          (unsigned long long)stamp, (unsigned long long)nanoseconds(CLOCK_REALTIME),
                          (unsigned long long)nanoseconds(CLOCK_MONOTONIC));
    pthread_mutex_lock(&lock);
    write_text("INFO", text, (size_t)length);
    pthread_mutex_unlock(&lock);
}

static void deliver(void)
{
    CUptiResult result = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (result != CUPTI_SUCCESS)
        report("cuptiActivityFlushAll", result);
    taking_stacks = false;
    write_end_of_clocks();
    pthread_mutex_lock(&lock);
    write_staged();
    if (result == CUPTI_SUCCESS)
        write_text("DONE", "", 0);
    pthread_mutex_unlock(&lock);
}

static void finish(void)
{
    if (getpid() != owner || atomic_exchange(&ending, true))
        return;
    if (flushing) {
        sem_post(&wake);
        pthread_join(flusher, NULL);
    }
    deliver();
}

/* ---- _exit, which runs no exit handlers ---- */

enum { LONGEST_DELIVERY_MS = 10000 };

/* In place of _exit. It may be called in a signal handler, whose thread may hold any lock, so another thread delivers,
 * and is not waited for without end. */
static _Noreturn void deliver_and_exit(int status)
{
    if (getpid() == owner && flushing && !atomic_exchange(&ending, true)) {
        leaving = true;
        sem_post(&wake);
        for (int waited_ms = 0; waited_ms < LONGEST_DELIVERY_MS && !delivered; waited_ms++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Point the calls of _exit in a loaded file to the function above. */
static int replace_exit(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
    ElfW(Addr) base = info->dlpi_addr, relro = 0, relro_end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(base + part->p_vaddr);
        if (part->p_type == PT_GNU_RELRO)
            relro = base + part->p_vaddr, relro_end = relro + part->p_memsz;
    }
    relro_end &= ~(page - 1); /* the loader protects whole pages: what follows on the last one stays writable */
    ElfW(Addr) at[DT_JMPREL + 1] = {0}; /* by tag */
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag > 0 && dynamic->d_tag <= DT_JMPREL)
            at[dynamic->d_tag] = dynamic->d_un.d_ptr;
    static const int ADDRESSES[] = {DT_SYMTAB, DT_STRTAB, DT_RELA, DT_JMPREL};
    for (size_t i = 0; i < COUNT(ADDRESSES); i++)
        if (at[ADDRESSES[i]] && at[ADDRESSES[i]] < base) /* glibc adds the base, other loaders do not */
            at[ADDRESSES[i]] += base;
    if (!at[DT_SYMTAB] || !at[DT_STRTAB] || (at[DT_JMPREL] && at[DT_PLTREL] != DT_RELA))
        return 0;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)at[DT_SYMTAB];
    const ElfW(Rela) *tables[] = {(const ElfW(Rela) *)at[DT_RELA], (const ElfW(Rela) *)at[DT_JMPREL]};
    const size_t bytes[] = {at[DT_RELASZ], at[DT_PLTRELSZ]};
    for (size_t table = 0; table < COUNT(tables); table++) {
        const ElfW(Rela) *end = tables[table] + bytes[table] / sizeof *end;
        for (const ElfW(Rela) *one = tables[table]; one && one < end; one++) {
            const char *name = (const char *)at[DT_STRTAB] + symbols[ELF64_R_SYM(one->r_info)].st_name;
            if (strcmp(name, "_exit") && strcmp(name, "_Exit"))
                continue;
            ElfW(Addr) place = base + one->r_offset;
            void *start = (void *)(place & ~(page - 1));
            bool protected = relro <= place && place < relro_end;
            if (protected && mprotect(start, page, PROT_READ | PROT_WRITE))
                continue;
            *(ElfW(Addr) *)place = (ElfW(Addr))deliver_and_exit;
            if (protected)
                mprotect(start, page, PROT_READ);
        }
    }
    return 0;
}

/* ---- start ---- */

static const char *const PASSED_ON[] = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID", "CUDA_VISIBLE_DEVICES"};

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
    char host[256] = "host";
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
        int length = snprintf(recording, sizeof recording, "%s/%s_%ld%s", folder, host, (long)getpid(), number);
        char path[sizeof recording + sizeof ".record"];
        if (length < 0 || (size_t)length >= sizeof recording)
            return false;
        snprintf(path, sizeof path, "%s.record", recording);
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
    asked = getenv("ROOFLENS_RECORD_STACKS");
    if (asked && !strcmp(asked, "1"))
        start_stacks();
    atexit(finish);
    at_quick_exit(finish);
    start_flusher();
    dl_iterate_phdr(replace_exit, NULL);
    return 1;
}
