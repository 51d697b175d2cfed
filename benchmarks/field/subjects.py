"""Which parsers are checked, and in which format."""

from dataclasses import dataclass

from benchmarks.inputs.sources import TEMPLATES

LLAMA = "llama.cpp"
"""The project that makes a parser for each template: a parser has the name of the format."""


@dataclass(frozen=True)
class Subject:
    """A parser of another project.

    Args:
        project: as in `constrained.inspect.peers.pipe`, or `LLAMA`.
        parser: its name there; for vLLM with a parser of reasoning after a plus.
        format: the name of a wire format, of the registry or of `benchmarks.field.formats`.
    """

    project: str
    parser: str
    format: str


_VLLM = """
apertus=apertus
cohere_command3+cohere_command3=command_r7b
cohere_command4+cohere_command4=cohere_moe
deepseek_v3+deepseek_r1=deepseek_r1
deepseek_v31+deepseek_v3=deepseek_v3
deepseek_v32+deepseek_v3=dsml
deepseek_v4+deepseek_v4=dsml_v4
dots=dots
ernie45+ernie45=ernie45
functiongemma=functiongemma
gemma4+gemma4=gemma4
gigachat3=gigachat31
glm45+glm45=glm45
glm47+glm47=glm47
granite=granite
granite-20b-fc=granite_20b_fc
granite4=hermes
hermes+qwen3=hermes
hunyuan_a13b=jamba
hy_v3+hy_v3=hy_v3
hy_v4+hy_v4=hy_v4
inkling=inkling
internlm=internlm
jamba=jamba
k2_horizon+k2_horizon=k2_horizon
kimi_k2+kimi_k2=kimi_k2
kimi_k3+kimi_k3=kimi_k3
lfm2=lfm2
ling3+ling3=ling
llama3_json=llama3_json
llama4_pythonic=llama4_pythonic
longcat=longcat
mimo+mimo=mimo
minicpm5+minicpmv=minicpm5
minicpm5=minicpm5
minimax_m2+minimax_m2=minimax_m2
minimax_m3+minimax_m3=minimax_m3
mistral+mistral=mistral
mistral=mistral_nemo
muse+muse=muse
muse_glimmer+muse_glimmer=muse
olmo3=olmo3
phi4_mini_json=phi4_mini
plamo3+plamo3=plamo3
poolside_v1+poolside_v1=poolside_v1
pythonic=pythonic
qwen3_coder+qwen3=qwen3_coder
qwen3_coder+nemotron_v3=qwen3_coder
seed_oss+seed_oss=seed_oss
step3=step3
step3p5+step3p5=qwen3_coder
step5+step5=qwen3_coder
xlam=xlam
openai+openai_gptoss=harmony
hermes+deepseek_r1=hermes
hermes+deepseek_v3=hermes
hermes+holo2=hermes
hermes+olmo3=hermes
hermes+step3=hermes
hermes+granite_thinking_parser=hermes
"""

_SGLANG = """
apertus2509+apertus2509=apertus
cohere_command4+cohere_command4=cohere_moe
deepseekv3+deepseek-r1=deepseek_r1
deepseekv31+deepseek-v3=deepseek_v3
deepseekv32+deepseek-v3=dsml
deepseekv4+deepseek-v4=dsml_v4
dots=dots
gemma4+gemma4=gemma4
gigachat3=gigachat31
glm45+glm45=glm45
glm47+glm45=glm47
gpt-oss+gpt-oss=harmony
hermes=hermes
hunyuan+hunyuan=hy_v3
inkling+inkling=inkling
interns1=internlm
k2_horizon+k2_horizon=k2_horizon
kimi_k2+kimi_k2=kimi_k2
kimi_k3+kimi_k3=kimi_k3
lfm2+qwen3=lfm2
ling3+ling3=ling
llama3=llama3_json
mimo+mimo=mimo
minicpm5+qwen3=minicpm5
minimax-m2+minimax=minimax_m2
minimax-m3+minimax-m3=minimax_m3
mistral+mistral=mistral
muse+muse=muse
poolside_v1+poolside_v1=poolside_v1
pythonic=pythonic
qwen25+qwen3=hermes
qwen25+granite_thinking_parser=hermes
qwen3_coder+qwen3=qwen3_coder
qwen3_coder+nemotron_3=qwen3_coder
step3=step3
step3p5+step3p5=qwen3_coder
"""

_TRANSFORMERS = """
gemma4=gemma4
qwen3=hermes
qwen3_5=qwen3_coder
"""

# The first teaches no calls; the prompts of the others begin what a turn of the format begins with.
_LEFT_OUT = ("generic", "apriel", "functionary_v32")


def _read(project: str, text: str) -> list[Subject]:
    subjects: list[Subject] = []
    for line in text.split():
        parser, _, format = line.partition("=")
        subjects.append(Subject(project, parser, format))
    return subjects


SUBJECTS = (
    *_read("vllm", _VLLM),
    *_read("sglang", _SGLANG),
    *_read("transformers", _TRANSFORMERS),
    *(Subject(LLAMA, name, name) for name in TEMPLATES if name not in _LEFT_OUT),
)
