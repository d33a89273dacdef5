"""NVIDIA GPUs as XLA's compiler describes them, which compiles for them on a machine without one.

Needs `pip install '.[plan-gpu]'`. Memory and rates are in `txjax.chips`.
"""

import dataclasses

from txjax.chips import CHIPS, Chip

_KIB = 2**10
_LIMITS = {"block": (2**31 - 1, 65535, 65535), "thread": (1024, 1024, 64)}  # of a grid, along x, y and z


@dataclasses.dataclass(frozen=True)
class GPU:
    """A GPU's properties that its compiler reads: CUDA's `cudaDeviceProp`, by XLA's descriptions of devices
    (github.com/openxla/xla, xla/backends/gpu/target_config/specs).

    Attributes:
      kind: `device_kind` of JAX.
      chip: its name in `CHIPS`.
      capability: CUDA's compute capability.
      cores: streaming multiprocessors.
      clock: GHz.
      floats: float32 units of a core.
      shared: KiB of on-chip memory of a core.
      cache: KiB of the second-level cache.
    """

    kind: str
    chip: str
    capability: tuple[int, int]
    cores: int
    clock: float
    floats: int
    shared: int
    cache: int

    @property
    def rates(self) -> Chip:
        """Its memory and rates."""
        return CHIPS[self.chip]

    def target_config(self) -> str:
        """XLA's `stream_executor.GpuTargetConfigProto` as text."""
        major, minor = self.capability
        features = (
            "feature_extension: ACCELERATED_FEATURES" if major >= 9 else ""
        )  # sm_90a, which has Hopper's products
        limits = " ".join(
            f"{part}_dim_limit_{axis}: {limit}"
            for part, sizes in _LIMITS.items()
            for axis, limit in zip("xyz", sizes, strict=True)
        )
        return f"""
            gpu_device_info {{
              threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 {limits}
              core_count: {self.cores} fpus_per_core: {self.floats} clock_rate_ghz: {self.clock}
              shared_memory_per_block: {48 * _KIB} shared_memory_per_core: {self.shared * _KIB}
              shared_memory_per_block_optin: {(self.shared - 1) * _KIB}
              registers_per_core_limit: 65536 registers_per_block_limit: 65536
              memory_bandwidth: {self.rates.memory_bandwidth:.0f} l2_cache_size: {self.cache * _KIB}
              device_memory_size: {self.rates.memory}
              cuda_compute_capability {{ major: {major} minor: {minor} {features} }}
              driver_version: "13.0.0" runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0"
              device_vendor: "NVIDIA Corporation" name: "{self.kind}"
            }}
            platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 12 }} device_description_str: "{self.kind}"
        """


GPUS = {
    "a100": GPU("NVIDIA A100-SXM4-80GB", "A100", (8, 0), 108, 1.41, 64, 164, 40 * _KIB),
    "h100": GPU("NVIDIA H100 80GB HBM3", "H100", (9, 0), 132, 1.98, 128, 228, 50 * _KIB),
    "h200": GPU("NVIDIA H200", "H200", (9, 0), 132, 1.98, 128, 228, 50 * _KIB),
    "b200": GPU("NVIDIA B200", "B200", (10, 0), 148, 1.965, 128, 228, 129_536),
}
