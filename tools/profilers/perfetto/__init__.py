"""Perfetto traces: what rocprof-sys, Omnitrace and rocprofv3 write as .pftrace or .proto."""
