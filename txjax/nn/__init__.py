"""Layers of Transformers: one idea a file."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.nn.attention.attention import Attention
    from txjax.nn.attention.cache import PROMPT, CausalModel, cached, keep_in_cache, update_cache
    from txjax.nn.attention.cross_attention import CrossAttention
    from txjax.nn.attention.feature_maps import EluPlusOne, FavorPlus, FeatureMap
    from txjax.nn.attention.layer_context import LayerContext, Memory, StackInputs
    from txjax.nn.attention.linear_attention import LinearAttention
    from txjax.nn.attention.mixer import MAPS, GridMixer, Mixer, MultiHead, rotate
    from txjax.nn.attention.positioned import PositionedAttention, PositionedCrossAttention
    from txjax.nn.attention.window_attention import GridAttention, WindowAttention
    from txjax.nn.attention.windows import StridedWindows, Windows
    from txjax.nn.conv.conv import Conv
    from txjax.nn.conv.downsampling import (
        ConvEmbedding,
        Downsampling,
        NormedConvEmbedding,
        NormedPatches,
        PatchEmbedding,
        PatchMerging,
        merge_patches,
    )
    from txjax.nn.conv.grid_mixers import DepthwiseConv, Identity, Pooling
    from txjax.nn.conv.inverted_bottleneck import InvertedBottleneck, SqueezeExcite
    from txjax.nn.conv.normed_conv import NormedConv
    from txjax.nn.conv.patch import overlapping_patches, patch_count, patchify, unpatchify
    from txjax.nn.heads.batch_normed import BatchNormed
    from txjax.nn.heads.class_heads import (
        Classes,
        FirstToken,
        LastToken,
        MeanPrefix,
        MeanTokens,
        NormedPool,
        Pool,
        Pooled,
        Pooler,
        Projected,
        StartEnd,
        TokenClasses,
        TransformedClasses,
    )
    from txjax.nn.heads.head import Encoded, Head, HeadContext, WithEncoded
    from txjax.nn.heads.logits import Logits
    from txjax.nn.heads.mask_schedule import MASK_SCHEDULES
    from txjax.nn.heads.object_attributes import ObjectAttributes
    from txjax.nn.heads.object_boxes import ObjectBoxes, ObjectPredictions
    from txjax.nn.heads.pair_features import PairFeatures, unit_length
    from txjax.nn.heads.pair_heads import MaskedPairs, ProductPooler, RegionOutputs
    from txjax.nn.heads.plain_masked_tokens import PlainMaskedTokens
    from txjax.nn.heads.replaced_tokens import ReplacedTokens
    from txjax.nn.heads.several_heads import Heads
    from txjax.nn.heads.teacher import Teacher
    from txjax.nn.heads.vocab_heads import (
        MaskedTokens,
        NextSentence,
        Softcap,
        Tied,
        TiedBias,
        TiedScaled,
        Untied,
        UntiedBias,
        VocabHead,
    )
    from txjax.nn.kernels.attention_dispatch import dot_product_attention
    from txjax.nn.kernels.context_parallel import AllGatherKV, ContextParallel, RingAttention
    from txjax.nn.kernels.mask import Mask
    from txjax.nn.layers.codebook import CODE_SIZE, Codebook, Quantised
    from txjax.nn.layers.embed import EMBED_WIDTH, Embed, ScaledEmbed
    from txjax.nn.layers.experts import Capacity, Dropless, Experts, GatedExperts, Routing
    from txjax.nn.layers.linear import Linear, align, parameter, project
    from txjax.nn.layers.mlp import ACTIVATIONS, MLP, GatedMLP
    from txjax.nn.layers.norms import (
        BatchNorm,
        FrozenBatchNorm,
        GroupNorm,
        GroupNormRelu,
        LayerNorm,
        Norm,
        RMSNorm,
        microbatch_of,
    )
    from txjax.nn.layers.quantize import Quantize, quantized
    from txjax.nn.parameters.aux_outputs import AUX_COLLECTIONS, sow_aux
    from txjax.nn.parameters.init import GPT2, Init, KernelInit, Normal, Xavier, set_model_fields
    from txjax.nn.parameters.parameter_order import begin_call, record_parameters
    from txjax.nn.parameters.quantized_kernels import QuantizedKernels, dequantized, parameter_sizes, stored_parts
    from txjax.nn.parameters.remat import REMAT, checkpoint_name
    from txjax.nn.positions.positions import (
        Alibi,
        Grid,
        Learned,
        NoPositions,
        PaddingAwareLearned,
        Positions,
        Rotary,
        Sinusoidal,
        Sinusoidal2D,
        T5Relative,
        padded_image,
    )
    from txjax.nn.positions.rotary_scaling import LinearScaling, Llama3Scaling, RotaryScaling
    from txjax.nn.stack.block import Block
    from txjax.nn.stack.layer_kinds import unstacked
    from txjax.nn.stack.periodic_stack import Period, PeriodicStack
    from txjax.nn.stack.residual_units import (
        PostNorm,
        PostNormAttention,
        PreActivation,
        PreNorm,
        PreNormWithoutFinal,
        SingleBranch,
    )
    from txjax.nn.stack.stack import Stack
    from txjax.nn.stack.stack_records import StackRecord, record_stacks
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "GPT2",
    "MLP",
    "Alibi",
    "Attention",
    "BatchNorm",
    "Block",
    "Classes",
    "Conv",
    "CrossAttention",
    "Downsampling",
    "Embed",
    "Experts",
    "FirstToken",
    "GatedMLP",
    "GroupNorm",
    "Head",
    "Init",
    "LastToken",
    "LayerNorm",
    "Learned",
    "Linear",
    "LinearAttention",
    "Mask",
    "MaskedTokens",
    "MeanTokens",
    "Mixer",
    "NoPositions",
    "Norm",
    "PatchEmbedding",
    "PeriodicStack",
    "Positions",
    "PostNorm",
    "PreNorm",
    "Projected",
    "Quantize",
    "RMSNorm",
    "Rotary",
    "Sinusoidal",
    "Stack",
    "StartEnd",
    "T5Relative",
    "Tied",
    "TokenClasses",
    "Untied",
    "WindowAttention",
]
