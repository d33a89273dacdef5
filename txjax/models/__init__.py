"""Models: a model's fields are its config."""

from txjax.models.hierarchical import Stage
from txjax.models.model import Model
from txjax.models.text.bert import Bert
from txjax.models.text.deberta import Deberta, MaskDecoder, deberta_v3
from txjax.models.text.decoder import Decoder, gpt, gpt_neo, llama
from txjax.models.text.electra import Electra
from txjax.models.text.encoder_decoder import EncoderDecoder, t5, t5_v1_1, transformer
from txjax.models.text.recurrent import RecurrentEncoderDecoder, luong
from txjax.models.text.reversible import ReversibleDecoder
from txjax.models.text.shared_embeddings import GradientDisentangled, Separate, Shared, Sharing
from txjax.models.transformer import Layers, Transformer
from txjax.models.vision.bit import BiT
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.conv_next import ConvNeXt
from txjax.models.vision.cvt import CvT
from txjax.models.vision.detr import DETR
from txjax.models.vision.mae import MAE
from txjax.models.vision.mask_git import mask_git
from txjax.models.vision.max_vit import MaxViT, MaxViTStem
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.patch_encoder import ClassToken
from txjax.models.vision.rep_lk_net import RepLKNet
from txjax.models.vision.res_net import ResNet
from txjax.models.vision.sam import SAM, windows_then_all
from txjax.models.vision.swin import Swin, shifted_windows
from txjax.models.vision.vit import ViT
from txjax.models.vision.vq_tokenizer import VQTokenizer

__all__ = [
    "DETR",
    "MAE",
    "SAM",
    "Bert",
    "BiT",
    "ClassToken",
    "ConvNeXt",
    "ConvNet",
    "CvT",
    "Deberta",
    "Decoder",
    "Electra",
    "EncoderDecoder",
    "GradientDisentangled",
    "MaskDecoder",
    "MaxViT",
    "MaxViTStem",
    "MetaFormer",
    "RecurrentEncoderDecoder",
    "RepLKNet",
    "ResNet",
    "ReversibleDecoder",
    "Separate",
    "Shared",
    "Sharing",
    "Stage",
    "Swin",
    "Layers",
    "Model",
    "Transformer",
    "VQTokenizer",
    "ViT",
    "deberta_v3",
    "gpt",
    "gpt_neo",
    "llama",
    "luong",
    "mask_git",
    "shifted_windows",
    "t5",
    "t5_v1_1",
    "transformer",
    "windows_then_all",
]
