"""Meshes.

How a kernel and an embedding lie on 64 devices, with FSDP over 16 and tensor parallelism over 4.
"""

from txjax.sharding import Mesh

mesh = Mesh(fsdp=16, tensor=4, rules={"vocab": ()})
print(mesh.sizes(num_devices=64))
# {'pipeline': 1, 'data': 1, 'fsdp': 16, 'expert': 1, 'sequence': 1, 'tensor': 4}
print(mesh.partition(("layers", "embed", "mlp")))
# P('pipeline', 'fsdp', 'tensor')
print(mesh.partition(("vocab", "embed")))  # P(None, 'fsdp')
