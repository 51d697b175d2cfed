"""The registry of wire formats: one value a file."""

from grammars.formats.apertus import APERTUS
from grammars.formats.apriel import APRIEL
from grammars.formats.cohere_moe import COHERE_MOE
from grammars.formats.command_r import COMMAND_R
from grammars.formats.command_r7b import COMMAND_R7B
from grammars.formats.deepseek_r1 import DEEPSEEK_R1
from grammars.formats.deepseek_v3 import DEEPSEEK_V3
from grammars.formats.dsml import DSML
from grammars.formats.dsml_v4 import DSML_V4
from grammars.formats.firefunction import FIREFUNCTION
from grammars.formats.functionary_v31 import FUNCTIONARY_V31
from grammars.formats.functionary_v32 import FUNCTIONARY_V32
from grammars.formats.gemma4 import GEMMA4
from grammars.formats.generic import GENERIC
from grammars.formats.gigachat3 import GIGACHAT3
from grammars.formats.gigachat31 import GIGACHAT31
from grammars.formats.glm45 import GLM45
from grammars.formats.glm47 import GLM47
from grammars.formats.harmony import HARMONY
from grammars.formats.hermes import HERMES
from grammars.formats.hunyuan import HUNYUAN
from grammars.formats.kimi_k2 import KIMI_K2
from grammars.formats.kimi_k3 import KIMI_K3
from grammars.formats.lfm2 import LFM2
from grammars.formats.ling import LING
from grammars.formats.llama3_json import LLAMA3_JSON
from grammars.formats.minicpm5 import MINICPM5
from grammars.formats.minimax_m1 import MINIMAX_M1
from grammars.formats.minimax_m2 import MINIMAX_M2
from grammars.formats.minimax_m3 import MINIMAX_M3
from grammars.formats.mistral import MISTRAL
from grammars.formats.mistral_nemo import MISTRAL_NEMO
from grammars.formats.mistral_small import MISTRAL_SMALL
from grammars.formats.muse import MUSE
from grammars.formats.nemotron_v2 import NEMOTRON_V2
from grammars.formats.qwen3_coder import QWEN3_CODER
from grammars.formats.seed_oss import SEED_OSS
from grammars.formats.solar import SOLAR

NATIVE = (
    HERMES,
    QWEN3_CODER,
    MISTRAL,
    LLAMA3_JSON,
    APERTUS,
    APRIEL,
    COHERE_MOE,
    COMMAND_R,
    COMMAND_R7B,
    DEEPSEEK_R1,
    DEEPSEEK_V3,
    DSML,
    DSML_V4,
    FIREFUNCTION,
    FUNCTIONARY_V31,
    FUNCTIONARY_V32,
    GEMMA4,
    GIGACHAT3,
    GIGACHAT31,
    GLM45,
    GLM47,
    HARMONY,
    HUNYUAN,
    KIMI_K2,
    KIMI_K3,
    LFM2,
    LING,
    MINICPM5,
    MINIMAX_M1,
    MINIMAX_M2,
    MINIMAX_M3,
    MISTRAL_NEMO,
    MISTRAL_SMALL,
    MUSE,
    NEMOTRON_V2,
    SEED_OSS,
    SOLAR,
)
"""The formats that models were trained to write."""

FORMATS = (*NATIVE, GENERIC)
