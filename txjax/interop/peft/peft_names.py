"""Names of modules in Hugging Face's models, by which peft finds them. Some differ from those of the files' tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txjax.interop.huggingface.rules import Flat, Rule

_IMAGES = {
    "encoder.layer.": "layers.",
    "attention.query": "q_proj",
    "attention.key": "k_proj",
    "attention.value": "v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
_WINDOWS = {
    "attention.self.query": "attention.q_proj",
    "attention.self.key": "attention.k_proj",
    "attention.self.value": "attention.v_proj",
    "attention.self.relative": "attention.relative_position_bias.relative",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
_OBJECTS = {"backbone.conv_encoder": "backbone", "out_proj": "o_proj", "}.fc1": "}.mlp.fc1", "}.fc2": "}.mlp.fc2"}
_TEXTS_WITH_IMAGES = {
    "language_model.model.": "model.language_model.",
    "language_model.lm_head": "lm_head",
    "vision_tower.": "model.vision_tower.",
    "multi_modal_projector.": "model.multi_modal_projector.",
}
# What transformers 5 renames after it has read a file, in turn; transformers 4 has the files' names.
_RENAMED = {"vit": _IMAGES, "vit_mae": _IMAGES, "swin": _WINDOWS, "detr": _OBJECTS, "llava": _TEXTS_WITH_IMAGES}


def name_modules(rules: Iterable[Rule], model_type: str) -> list[Rule]:
    """The rules of a family with the names of its modules."""

    def rename_tensor(name: str) -> str:
        for old, new in _RENAMED.get(model_type, {}).items():
            name = name.replace(old, new)
        return name

    return [rule._replace(hf_name=rename_tensor(rule.hf_name)) for rule in rules]


def without(prefix: str, rules: Iterable[Rule]) -> list[Rule]:
    """The rules with the names of a base model's modules in its own class, which has no head."""
    return [rule._replace(hf_name=rule.hf_name.removeprefix(prefix)) for rule in rules]


class Aliases:
    """The current names of modules that have had others, or have others in the class without a head.

    Args:
      rules: with current names.
      others: the same with other names.
      params: our parameters by path.
    """

    def __init__(self, rules: Sequence[Rule], others: Iterable[Sequence[Rule]], params: Flat):
        self.names: dict[str, str] = {}
        for old in (rules, *others):
            for rule, before in zip(rules, old, strict=True):
                for layer in range(len(params[rule.param_paths[0]])) if "{}" in rule.hf_name else (None,):
                    self.names.setdefault(_module(before.name(layer)), _module(rule.name(layer)))

    def current(self, name: str) -> str:
        """The current name of a tensor in a module."""
        module = _module(name)
        while module and module not in self.names:
            module = _module(module)
        return self.names.get(module, module) + name.removeprefix(module)


def _module(name: str) -> str:
    return name.rpartition(".")[0]
