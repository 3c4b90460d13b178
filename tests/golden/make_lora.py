"""Writes lora/: adapters that the library PEFT saved for two small models of transformers/, with the logits of the adapted model
and the gradients of its factors, for the tests of pruning/lora.hpp and pruning/lora_files.hpp.

Run with torch, transformers and peft installed:  python tests/golden/make_lora.py
Check an adapter that this library wrote:         python tests/golden/make_lora.py --check BASE ADAPTER EXPECTED
"""

import json
import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
# name: base, options of the adapters
CASES = {
    "llama_qv": ("llama_grouped", {"r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj"]}),
    "gpt2_all": ("gpt2_untied_odd", {"r": 2, "lora_alpha": 3, "use_rslora": True, "fan_in_fan_out": True,
                                     "target_modules": ["c_attn", "c_fc", "mlp.c_proj"],
                                     "rank_pattern": {"c_fc": 4}, "alpha_pattern": {"c_fc": 7}}),
}


def base_model(name):
    return AutoModelForCausalLM.from_pretrained(HERE / "transformers" / name, dtype=torch.float32, attn_implementation="eager").eval()


def write_case(name, base, options, generator):
    model = get_peft_model(base_model(base), LoraConfig(task_type="CAUSAL_LM", **options))
    factors = {n: p for n, p in model.named_parameters() if p.requires_grad}
    for p in factors.values():
        p.data = torch.randn(p.shape, generator=generator) * 0.3
    tokens = load_file(HERE / "transformers" / base / "expected.safetensors")["tokens"].long()[:1, :7]
    model.eval()
    logits = model(tokens).logits
    (logits * torch.cos(torch.arange(logits.numel(), dtype=torch.float32)).reshape(logits.shape)).sum().backward()
    folder = HERE / "lora" / name
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base  # not the path of the machine that made the file
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    expected = {"tokens": tokens, "logits": logits.detach()}
    expected |= {n.replace(".default", ""): p.grad for n, p in factors.items()}
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


def check(base, adapter, expected):
    wanted = load_file(expected)
    logits = PeftModel.from_pretrained(base_model(base), adapter).eval()(wanted["tokens"]).logits
    error = (logits - wanted["logits"]).abs().max().item()
    print(f"largest difference of logits: {error:.2e}")
    return 0 if error < 1e-4 else 1


def main():
    if sys.argv[1:2] == ["--check"]:
        sys.exit(check(*sys.argv[2:]))
    generator = torch.Generator().manual_seed(31)
    for name, (base, options) in CASES.items():
        write_case(name, base, options, generator)


main()
