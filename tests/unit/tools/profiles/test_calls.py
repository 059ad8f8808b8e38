"""What a host call does, by the name of its function: one table for HIP, HSA, CUDA, RCCL, NCCL and MPI."""

from __future__ import annotations

import duckdb

from rooflens.tools.profiles.timelines.call_kinds import categories, category_of, is_call, kind_of

CALLS = {
    "cudaLaunchKernel": "api launch", "cudaLaunchKernelExC": "api launch", "cuLaunchKernelEx": "api launch",
    "cudaGraphLaunch": "api launch", "hipGraphLaunch": "api launch", "hipModuleLaunchKernel": "api launch",
    "hipExtModuleLaunchKernel": "api launch", "hipExtLaunchKernel": "api launch", "cudaLaunchHostFunc": "api runtime",
    "cudaMemcpyAsync": "api copy", "cuMemcpyHtoDAsync_v2": "api copy", "hipMemcpyWithStream": "api copy",
    "hipMemsetAsync": "api copy", "hsa_amd_memory_async_copy_on_engine": "api copy", "cudaMemcpy": "api copy",
    "cudaStreamSynchronize": "sync runtime", "hipDeviceSynchronize": "sync runtime", "cuCtxSynchronize": "sync driver",
    "cudaEventSynchronize": "sync runtime", "hsa_signal_wait_scacquire": "sync hsa",
    "hsa_amd_signal_wait_any": "sync hsa", "cudaStreamWaitEvent": "api runtime", "cudaEventQuery": "api runtime",
    "hipMalloc": "alloc runtime", "cudaFree": "alloc runtime", "cudaHostAlloc": "alloc runtime",
    "cudaMallocAsync": "alloc runtime", "hipHostMalloc": "alloc runtime", "hipExtMallocWithFlags": "alloc runtime",
    "cuMemAlloc_v2": "alloc driver", "cuMemCreate": "alloc driver", "hsa_amd_memory_pool_allocate": "alloc hsa",
    "hsa_memory_free": "alloc hsa", "cudaMemGetInfo": "api runtime",
    "cuModuleLoadData": "api module", "hipModuleGetFunction": "api module", "__hipRegisterFatBinary": "api module",
    "hsa_executable_freeze": "api module", "cuInit": "api init", "hsa_init": "api init",
    "cuDevicePrimaryCtxRetain": "api init", "hsa_queue_create": "api init", "cuDeviceGet": "api driver",
    "hsa_agent_get_info": "api hsa", "ncclAllReduce": "api nccl", "MPI_Allreduce": "api mpi", "mbind": "api host",
    "cute_function": "api host", "cumsum": "api host", "hipster": "api runtime", "": "api host",
}  # fmt: skip


def test_every_function_has_its_kind_and_category():
    sql = f"SELECT name, {kind_of('name')}, {category_of('name')}, {is_call('name')} FROM (SELECT unnest(?) AS name)"
    found = duckdb.execute(sql, [list(CALLS)]).fetchall()
    assert {name: f"{kind} {category}" for name, kind, category, _ in found} == CALLS
    assert {category for *_, category, _ in found} <= set(categories())
    assert all(call == (category != "host") for *_, category, call in found)
