"""Groups of parameters.

Which parameters are trained, and how fast. Patterns match whole paths.
"""

from txjax.models.text.bert import Bert
from txjax.nn import Classes, FirstToken
from txjax.nn.adapters import LoRA
from txjax.optim import AdamW, Group, LayerDecay, train_adapter, train_all_but, train_only

paths = ("embed/embedding", "layers/block/attention/query/kernel", "layers/block/mlp/up/bias", "head/kernel")
groups = {
    "a faster head": (Group("head/.*", lr=10.0), Group("(?!head/).*")),
    "the head alone": train_only("head/.*"),
    "all but the embedding": train_all_but("embed/.*"),
}
for name, choice in groups.items():
    optimizer = AdamW(peak_lr=1e-3, groups=choice, layer_decay=LayerDecay(0.75))
    print(name, [optimizer.assign(paths)[path].lr * optimizer.trained(path) for path in paths])
# a faster head [1.0, 1.0, 1.0, 10.0]
# the head alone [0.0, 0.0, 0.0, 1.0]
# all but the embedding [0.0, 1.0, 1.0, 1.0]

model = Bert(vocab=100, width=32, depth=2, heads=4, head=Classes(3, FirstToken()), adapter=LoRA(rank=4))
tuning = AdamW(groups=train_adapter("head/.*")).tuning(model)
print([tuning.trained(path) for path in (*paths, "layers/block/attention/query/lora/up/kernel")])
# [False, False, False, True, True]
