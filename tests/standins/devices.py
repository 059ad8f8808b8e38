"""The GPUs that the stand-ins pretend to see: properties as the kernel driver and agent_info.csv name them."""

from __future__ import annotations

AGENT_COLUMNS = (
    "Node_Id", "Logical_Node_Id", "Agent_Type", "Cpu_Cores_Count", "Simd_Count", "Cpu_Core_Id_Base", "Simd_Id_Base",
    "Max_Waves_Per_Simd", "Lds_Size_In_Kb", "Gds_Size_In_Kb", "Num_Gws", "Wave_Front_Size", "Num_Xcc", "Cu_Count",
    "Array_Count", "Num_Shader_Banks", "Simd_Arrays_Per_Engine", "Cu_Per_Simd_Array", "Simd_Per_Cu",
    "Max_Slots_Scratch_Cu", "Gfx_Target_Version", "Vendor_Id", "Device_Id", "Location_Id", "Domain",
    "Drm_Render_Minor", "Num_Sdma_Engines", "Num_Sdma_Xgmi_Engines", "Num_Sdma_Queues_Per_Engine", "Num_Cp_Queues",
    "Max_Engine_Clk_Ccompute", "Max_Engine_Clk_Fcompute", "Sdma_Fw_Version", "Fw_Version", "Capability",
    "Cu_Per_Engine", "Max_Waves_Per_Cu", "Family_Id", "Workgroup_Max_Size", "Grid_Max_Size", "Local_Mem_Size",
    "Hive_Id", "Gpu_Id", "Workgroup_Max_Dim_X", "Workgroup_Max_Dim_Y", "Workgroup_Max_Dim_Z", "Grid_Max_Dim_X",
    "Grid_Max_Dim_Y", "Grid_Max_Dim_Z", "Name", "Vendor_Name", "Product_Name", "Model_Name",
)  # fmt: skip

_COMMON = {
    "Agent_Type": "GPU", "Lds_Size_In_Kb": 64, "Num_Gws": 64, "Wave_Front_Size": 64, "Simd_Per_Cu": 4,
    "Max_Slots_Scratch_Cu": 32, "Vendor_Id": 4098, "Location_Id": 768, "Drm_Render_Minor": 128,
    "Simd_Id_Base": 2147487744, "Simd_Arrays_Per_Engine": 1, "Num_Cp_Queues": 24, "Workgroup_Max_Size": 1024,
    "Grid_Max_Size": 2147483647, "Workgroup_Max_Dim_X": 1024, "Workgroup_Max_Dim_Y": 1024,
    "Workgroup_Max_Dim_Z": 1024, "Grid_Max_Dim_X": 2147483647, "Grid_Max_Dim_Y": 65535, "Grid_Max_Dim_Z": 65535,
    "Vendor_Name": "AMD", "Family_Id": 141, "Node_Id": 1, "Logical_Node_Id": 1,
}  # fmt: skip
_PARTS = {
    "gfx908": {"Cu_Count": 120, "Num_Xcc": 1, "Array_Count": 8, "Max_Waves_Per_Simd": 10, "Device_Id": 29580,
               "Gfx_Target_Version": 90008, "Max_Engine_Clk_Fcompute": 1502, "Local_Mem_Size": 34342961152,
               "Model_Name": "AMD Instinct MI100"},
    "gfx90a": {"Cu_Count": 104, "Num_Xcc": 1, "Array_Count": 8, "Max_Waves_Per_Simd": 8, "Device_Id": 29711,
               "Gfx_Target_Version": 90010, "Max_Engine_Clk_Fcompute": 1700, "Local_Mem_Size": 68702699520,
               "Model_Name": "AMD Instinct MI210"},
    "gfx942": {"Cu_Count": 304, "Num_Xcc": 8, "Array_Count": 32, "Max_Waves_Per_Simd": 8, "Device_Id": 29857,
               "Gfx_Target_Version": 90402, "Max_Engine_Clk_Fcompute": 2100, "Local_Mem_Size": 206141652992,
               "Model_Name": "AMD Instinct MI300X"},
    "gfx950": {"Cu_Count": 256, "Num_Xcc": 8, "Array_Count": 32, "Max_Waves_Per_Simd": 8, "Device_Id": 30115,
               "Gfx_Target_Version": 90500, "Max_Engine_Clk_Fcompute": 2400, "Local_Mem_Size": 309220868096,
               "Lds_Size_In_Kb": 160, "Model_Name": "AMD Instinct MI355X"},
}  # fmt: skip
TARGETS = tuple(_PARTS)


def gpu(target: str) -> dict[str, int | str]:
    """The row of agent_info.csv of the one GPU."""
    part = {**_COMMON, **_PARTS[target]}
    cus = int(part["Cu_Count"])
    derived = {
        "Simd_Count": 4 * cus, "Num_Shader_Banks": part["Array_Count"],
        "Max_Waves_Per_Cu": 4 * int(part["Max_Waves_Per_Simd"]),
        "Cu_Per_Engine": cus // int(part["Array_Count"]), "Cu_Per_Simd_Array": cus // int(part["Array_Count"]),
        "Gpu_Id": 21584, "Name": target, "Product_Name": part["Model_Name"],
    }  # fmt: skip
    return {column: {**part, **derived}.get(column, 0) for column in AGENT_COLUMNS}


def cpu() -> dict[str, int | str]:
    """The row of agent_info.csv of the host's processor, which is node 0."""
    facts = {"Agent_Type": "CPU", "Cpu_Cores_Count": 2, "Num_Xcc": 1, "Cu_Count": 2, "Max_Engine_Clk_Ccompute": 3000,
             "Vendor_Name": "CPU", "Name": "CPU model", "Product_Name": "CPU model", "Family_Id": 6,
             "Model_Name": ""}  # fmt: skip
    return {column: facts.get(column, 0) for column in AGENT_COLUMNS}


def banks(target: str) -> list[dict[str, int]]:
    """The GPU's memory as JSON and rocpd state it: width in bits, clock in MHz."""
    width, clock = {"gfx908": (4096, 1200), "gfx90a": (4096, 1600), "gfx942": (8192, 1300), "gfx950": (8192, 1900)}[
        target
    ]
    size = int(gpu(target)["Local_Mem_Size"])
    return [{"heap_type": 1, "width": width, "mem_clk_max": clock, "size_in_bytes": size}]


def xccs(target: str) -> int:
    """Compute dies of the GPU."""
    return int(gpu(target)["Num_Xcc"])


def topology(target: str) -> dict[str, str]:
    """Files of the kernel driver's topology, path below / -> text: node 0 is the processor, node 1 the GPU."""
    nodes = "sys/class/kfd/kfd/topology/nodes"
    card = gpu(target)
    skip = {"Agent_Type", "Name", "Vendor_Name", "Product_Name", "Model_Name", "Node_Id", "Logical_Node_Id", "Gpu_Id"}
    memory = "".join(f"{name} {value}\n" for name, value in banks(target)[0].items())
    properties = "".join(
        f"{name.lower()} {value}\n" for name, value in card.items() if name not in skip and not name.startswith("Cu_Co")
    )
    return {
        f"{nodes}/0/properties": "cpu_cores_count 2\nsimd_count 0\nmem_banks_count 1\n",
        f"{nodes}/0/gpu_id": "0\n",
        f"{nodes}/1/properties": f"{properties}unique_id 4660\nmem_banks_count 1\n",
        f"{nodes}/1/gpu_id": f"{card['Gpu_Id']}\n",
        f"{nodes}/1/name": f"{target}\n",
        f"{nodes}/1/mem_banks/0/properties": memory,
        "dev/kfd": "",
        "dev/dri/renderD128": "",
    }
