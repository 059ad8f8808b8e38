// Stands in for NVIDIA's libnvidia-ml.so.1, for the real pynvml: one GPU whose figures are made up.
#include <string.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
enum { OK = 0, NOT_FOUND = 6 };
static int gpu;

int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) { strncpy(text, "580.159.04", size); return OK; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) { *handle = &gpu; return index ? NOT_FOUND : OK; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** handle) {
  *handle = &gpu;
  return strcmp(place, "00000000:41:00.0") ? NOT_FOUND : OK;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned size) { strncpy(text, "NVIDIA H200", size); return OK; }
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  strncpy(text, "GPU-00000000-1111-2222-3333-444444444444", size);
  return OK;
}
int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) { *major = 9; *minor = 0; return OK; }
int nvmlDeviceGetMaxClockInfo(void* handle, int kind, unsigned* mhz) { *mhz = kind == 1 ? 1980 : 1; return OK; }
int nvmlDeviceGetClockInfo(void* handle, int kind, unsigned* mhz) { *mhz = kind == 1 ? 1755 : 1; return OK; }
int nvmlDeviceGetTemperature(void* handle, int sensor, unsigned* celsius) { *celsius = sensor ? 1 : 41; return OK; }
int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) { memory->total = 143771ull << 20; return OK; }
int nvmlDeviceGetMigMode(void* handle, unsigned* now, unsigned* later) { *now = *later = 0; return OK; }
int nvmlDeviceGetPciInfo_v3(void* handle, Pci* pci) {
  memset(pci, 0, sizeof *pci);
  strcpy(pci->bus_id, "00000000:41:00.0");
  return OK;
}
