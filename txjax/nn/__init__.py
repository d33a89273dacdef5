"""Layers of Transformers: one idea a file."""

from txjax.nn.attention.attention import (
    MAPS,
    Attention,
    LayerContext,
    Mixer,
    MultiHead,
    head_size,
    rotate,
)
from txjax.nn.attention.attention_dispatch import dot_product_attention
from txjax.nn.attention.cache import PROMPT, Window, cached, causal_window, keep_in_cache, update_cache
from txjax.nn.attention.context_parallel import AllGatherKV, ContextParallel, RingAttention
from txjax.nn.attention.conv_attention import ConvAttention
from txjax.nn.attention.cross_attention import CrossAttention
from txjax.nn.attention.decomposed import DecomposedAttention, DecomposedWindowAttention
from txjax.nn.attention.disentangled import DisentangledAttention
from txjax.nn.attention.feature_maps import EluPlusOne, FavorPlus, FeatureMap
from txjax.nn.attention.linear_attention import LinearAttention
from txjax.nn.attention.mask import Mask
from txjax.nn.attention.memory import Memory
from txjax.nn.attention.positioned import PositionedAttention, PositionedCrossAttention
from txjax.nn.attention.window_attention import GridAttention, WindowAttention
from txjax.nn.attention.windows import StridedWindows, Windows, padded_image
from txjax.nn.aux_outputs import AUX_COLLECTIONS, sow_aux
from txjax.nn.batch_norm import BatchNorm, FrozenBatchNorm, one_of
from txjax.nn.bottleneck_convs import Bottleneck, BottleneckConvs, BottleneckDownsampling, BottleneckStem
from txjax.nn.codebook import CODE_SIZE, Codebook, Quantised
from txjax.nn.conv import Conv
from txjax.nn.downsampling import (
    ConvEmbedding,
    Downsampling,
    NormedConvEmbedding,
    NormedPatches,
    PatchEmbedding,
    PatchMerging,
    merge_patches,
)
from txjax.nn.embed import EMBED_WIDTH, Embed, ScaledEmbed
from txjax.nn.experts import Capacity, Dropless, Experts, GatedExperts, Routing
from txjax.nn.fourier import RandomFourier
from txjax.nn.grid_mixers import DepthwiseConv, GridMixer, Identity, Pooling
from txjax.nn.heads.batch_normed import BatchNormed
from txjax.nn.heads.class_heads import Classes, Pooled, StartEnd, TokenClasses
from txjax.nn.heads.head import Encoded, Head, HeadContext, WithEncoded
from txjax.nn.heads.logits import Logits
from txjax.nn.heads.object_boxes import ObjectBoxes, ObjectPredictions
from txjax.nn.heads.plain_masked_tokens import PlainMaskedTokens
from txjax.nn.heads.pool import FirstToken, LastToken, MeanTokens, NormedPool, Pool, Pooler
from txjax.nn.heads.replaced_tokens import ReplacedTokens
from txjax.nn.heads.several_heads import Heads
from txjax.nn.heads.vocab_heads import (
    MaskedTokens,
    NextSentence,
    Softcap,
    Tied,
    TiedBias,
    TiedScaled,
    Untied,
    VocabHead,
)
from txjax.nn.init import GPT2, Init, Normal, Xavier
from txjax.nn.large_kernels import (
    LargeKernel,
    LargeKernelMixer,
    LargeKernelStem,
    MergedKernel,
    NormedMLP,
    ParallelKernels,
    Transition,
)
from txjax.nn.linear import Linear, align, parameter, project
from txjax.nn.map_positions import LearnedMap, MapPositions, SineMap
from txjax.nn.mask_schedule import MASK_SCHEDULES
from txjax.nn.mb_conv import MBConv, SqueezeExcite
from txjax.nn.mlp import ACTIVATIONS, MLP, GatedMLP
from txjax.nn.normed_conv import NormedConv
from txjax.nn.norms import GroupNorm, GroupNormRelu, LayerNorm, Norm, RMSNorm
from txjax.nn.parameter_order import begin_call, record_parameters
from txjax.nn.patch import patchify, unpatchify
from txjax.nn.positions import (
    Alibi,
    Counted,
    Grid,
    Learned,
    NoPositions,
    Positions,
    Rotary,
    Sinusoidal,
    Sinusoidal2D,
    T5Relative,
)
from txjax.nn.quantize import Quantize, quantized
from txjax.nn.recurrent.alignment import Additive, Alignment, Annotations, Dot, General
from txjax.nn.recurrent.attending import AttendFirst, AttendingDecoder, AttendLast
from txjax.nn.recurrent.cells import GRU, LSTM, Cell
from txjax.nn.recurrent.over_positions import Bidirectional, Recurrent
from txjax.nn.recurrent.readout import AttentionalState, Maxout, Readout
from txjax.nn.relative_embeddings import RelativeEmbeddings, log_bucket
from txjax.nn.residual_convs import ResidualConvs, ResidualDownsampling, ResidualStem
from txjax.nn.rotary_scaling import LinearScaling, Llama3Scaling, RotaryScaling
from txjax.nn.stack.again import apply_again
from txjax.nn.stack.block import (
    Block,
    PostActivation,
    PostNorm,
    PostNormAttention,
    PreActivation,
    PreNorm,
    PreNormWithoutFinal,
    SingleBranch,
    set_model_fields,
)
from txjax.nn.stack.multi_axis import MultiAxis
from txjax.nn.stack.periods import Period, Periods
from txjax.nn.stack.remat import REMAT, Remat, checkpoint_name
from txjax.nn.stack.stack import Stack
from txjax.nn.stack.stack_records import StackRecord, record_stacks
from txjax.nn.stack.turns import unstacked
from txjax.nn.stack.two_way import FirstTokens, TwoWay
from txjax.nn.standardized_conv import StandardizedConv
from txjax.nn.storage import QuantizedKernels, dequantized, parameter_sizes, stored_parts
from txjax.nn.teacher import Teacher
from txjax.nn.upsampling import Upsampling
