"""The profilers before rocprofv3: command lines of rocprof (v1) and rocprofv2."""
