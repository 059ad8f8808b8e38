"""How long a folder of rocprofv3's CSV files with many launches takes to import, and with how much memory.

`python benchmarks/counters_import.py FOLDER [--launches 1000000] [--passes 2] [--counters 3]` writes a made profile
into FOLDER unless it is there already, imports it, and prints seconds and the largest memory of the process. To compare
two versions, run the file with each of them in turn, with the same folder.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

_KERNELS = [f"void made::kernel_{n}<float, {n}>(float*, int)" for n in range(20)]
_AGENT = (
    '"Node_Id","Logical_Node_Id","Agent_Type","Cpu_Cores_Count","Simd_Count","Simd_Per_Cu","Name","Product_Name",'
    '"Gfx_Target_Version","Num_Xcc","Num_Shader_Banks","Wave_Front_Size"\n'
    '1,1,"GPU",0,416,4,"gfx90a","AMD Instinct MI210",90010,1,8,64\n'
)
_COUNTERS = ("SQ_WAVES", "SQ_INSTS_VALU", "GRBM_GUI_ACTIVE", "TCC_HIT_sum", "TCC_MISS_sum", "SQ_INSTS_LDS")
_TRACE = (
    '"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
_COUNTED = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","SGPR_Count","Counter_Name",'
    '"Counter_Value","Start_Timestamp","End_Timestamp"\n'
)


def write_profile(folder: Path, launches: int, passes: int, counters: int) -> None:
    """Write a trace without counters, and passes that count ``counters`` counters of every launch."""
    for name in ("timing", *(f"pass_{number + 1}" for number in range(passes))):
        own = folder / name
        own.mkdir(parents=True)
        (own / "7_agent_info.csv").write_text(_AGENT)
        trace = name == "timing"
        with (own / ("7_kernel_trace.csv" if trace else "7_counter_collection.csv")).open("w") as out:
            out.write(_TRACE if trace else _COUNTED)
            for n in range(launches):
                kind = n % len(_KERNELS)
                kernel, start = _KERNELS[kind], 10**12 + 5000 * n
                end = start + 2000 + n * 37 % 500
                if trace:
                    out.write(f'"KERNEL_DISPATCH","Agent 1",1,{n + 1},{kind},"{kernel}",{n + 1},{start},{end},')
                    out.write("256,1,1,10240,1,1\n")
                    continue
                first = counters * (int(name.removeprefix("pass_")) - 1)
                for number in range(first, first + counters):
                    counter = _COUNTERS[number % len(_COUNTERS)]
                    out.write(f'{n + 1},{n + 1},"Agent 1",1,7,7,10240,{kind},"{kernel}",256,0,0,32,16,"{counter}",')
                    out.write(f"{160 + n % 7 * number},{start},{end}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for option, default in (("--launches", 1_000_000), ("--passes", 2), ("--counters", 3)):
        parser.add_argument(option, type=int, default=default)
    given = parser.parse_args()
    from rooflens.analysis.store.store import Store
    from rooflens.tools.import_profile import import_profile

    if not given.folder.exists():
        write_profile(given.folder, given.launches, given.passes, given.counters)
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        done = import_profile(Store(Path(store)), str(given.folder))
        took_s = time.perf_counter() - began
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{done.dispatches} dispatches, {done.counters} counters: {took_s:.1f} s, {memory_mib} MiB")


if __name__ == "__main__":
    main()
