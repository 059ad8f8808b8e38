"""Roles of columns."""

from __future__ import annotations

import pytest

from rooflens.tools.profiles.parsing.sheet import classify, role_of

V2 = "Dispatch_ID,Kernel_Name,GPU_ID,Queue_ID,Queue_Index,PID,TID,GRD,WGR,LDS,SCR,Arch_VGPR,SGPR,wave_size,SIG,OBJ,"
V3 = "Dispatch_Id,Kernel_Name,Agent_Id,Queue_Id,Correlation_Id,Process_Id,Thread_Id,Grid_Size,Workgroup_Size,"
V2 += "Start_Timestamp,End_Timestamp"
V3 += "LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,Kernel_Id,Kernel_Id_1,Kernel_Id_2,"
V3 += "Start_Timestamp,End_Timestamp"


@pytest.mark.parametrize(
    ("header", "role"),
    [
        ("SQ_WAVES", "counter"), ("SQC_DCACHE_REQ_READ_8", "counter"), ("SQ_WAVES_LT_32", "counter"),
        ("TCC_HIT[15]", "instance"), ("TCC_HIT_sum", "counter"), ("Wavefronts", "counter"), ("VALUBusy", "counter"),
        ("L2CacheHit", "counter"), ("MeanOccupancyPerCU", "counter"), ("FETCH_SIZE", "counter"),
        ("MfmaFlopsBF16", "counter"), ("wave_size_12", "ignored"), ("Kernel_ID_3", "ignored"),
        ("XCC_Index_5", "ignored"), ("Unnamed: 0", "unknown"), ("", "unknown"), ("sq_waves", "unknown"),
        ("Duration_NS", "unknown"), ("File_Row_Number", "unknown"), ("SQ_" + "X" * 200, "unknown"),
        ('A_"; DROP', "unknown"),
    ],
)  # fmt: skip
def test_counters_metadata_and_the_rest_are_told_apart(header, role):
    assert role_of(header) == role


def test_a_second_spelling_of_launch_data_is_ignored():
    assert [c.role for c in classify(["wgr", "WGR", "Workgroup_Size"])] == ["workgroup_size", "ignored", "ignored"]
