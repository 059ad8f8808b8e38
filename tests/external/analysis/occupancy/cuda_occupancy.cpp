// Resident blocks by the calculator of the CUDA Toolkit: registers, threads and bytes from the input, blocks to the output.
#include <cuda_occupancy.h>
#include <cstdio>
#include <cstdlib>
int main(int, char **argv) {
  int n[6];
  for (int i = 0; i < 6; i++) n[i] = atoi(argv[i + 1]);
  cudaOccDeviceProp device;
  device.computeMajor = n[0]; device.computeMinor = n[1];
  device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = 32 * n[2];
  device.regsPerBlock = device.regsPerMultiprocessor = 65536; device.warpSize = 32;
  device.sharedMemPerBlock = 49152; device.sharedMemPerMultiprocessor = 1024 * n[3];
  device.numSms = 1; device.sharedMemPerBlockOptin = 1024 * n[4]; device.reservedSharedMemPerBlock = 1024 * n[5];
  int registers, threads, bytes;
  while (scanf("%d %d %d", &registers, &threads, &bytes) == 3) {
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF; kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = 1024 * n[4]; kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, bytes)) return 1;
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
}
