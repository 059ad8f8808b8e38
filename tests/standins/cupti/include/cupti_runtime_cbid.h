/* A stand-in, see ../README.md. Numbers are not those of CUPTI. */
#pragma once
enum {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunch_v3020 = 1,
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
    CUPTI_RUNTIME_TRACE_CBID_cudaMalloc,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemset,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize,
#if CUPTI_API_VERSION >= 130000
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
#endif
};
