"""Images and texts together.

LLaVA writes, ViLBERT answers, UniT has several tasks.
"""

import jax
import jax.numpy as jnp

from txjax.models import Stage
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.multimodal.unit import DecodedTask, MapEncoder, UniT
from txjax.models.multimodal.vilbert import GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.models.vision.res_net import ResNet
from txjax.nn import Classes, FirstToken, ProductPooler, Stack

key, image = jax.random.key(0), jnp.zeros([1, 32, 32, 3])
sizes = dict(width=32, depth=2, heads=4)

# 16 tokens stand for the 16 patches of 8 x 8 pixels; the tower's last but one layer is read.
tower = CLIPImageTower(**sizes, patch=8, stack=Stack(outputs=(-2,)))
llava = LLaVA(**sizes, vocab=100, image_token=99, vision=tower)
tokens = jnp.array([[1] + [99] * 16 + [5, 6, 7]])
logits, _ = jax.eval_shape(llava.init_with_output, key, tokens, image=image)
print(jax.eval_shape(lambda logits: logits.dense(), logits).shape)
# (1, 20, 100)

text = Bert(**sizes, vocab=100, head=None)
vilbert = ViLBERT(**sizes, text=text, regions=GridRegions(patch=8), head=Classes(10, ProductPooler(32)))
answers, _ = jax.eval_shape(vilbert.init_with_output, key, jnp.array([[2, 5, 6, 3]]), image=image)
print(answers.shape)  # (1, 10)

unit = UniT(
    **sizes,
    vision=MapEncoder(**sizes, backbone=ResNet(stages=(Stage(32, 1),))),
    text=text,
    tasks={
        "vqa": DecodedTask(Classes(10, FirstToken())),
        "sst2": DecodedTask(Classes(2, FirstToken()), text_tokens=1),
    },
)
answers, _ = jax.eval_shape(unit.for_task("vqa").init_with_output, key, image, jnp.array([[2, 5, 6, 3]]))
print(answers.shape)  # (1, 10)
