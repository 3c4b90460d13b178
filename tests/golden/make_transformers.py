"""Writes tests/golden/transformers/<case>/: tiny random models, with their logits, loss, gradients and greedy text by `transformers`;
and tests/golden/sampling.json: probabilities after the logits processors of `transformers`.

Run:    python tests/golden/make_transformers.py                (needs torch, transformers and safetensors)
Check:  python tests/golden/make_transformers.py --check FOLDER
        FOLDER holds models that tests/transformer/hugging_face.cpp saved (TINYTORCH_SAVED_MODELS=FOLDER). `transformers`
        must load each of them and give the expected logits.

Weights are stored in the dtype of the case; expected values are computed in f64 from the stored weights.
"""

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                          TopKLogitsWarper, TopPLogitsWarper)

GOLDEN = pathlib.Path(__file__).parent
FOLDER = GOLDEN / "transformers"
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def gpt2(**options):
    return GPT2Config(**{"vocab_size": 61, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 4, **NO_TOKENS, **options})


def llama(**options):
    return LlamaConfig(**{"vocab_size": 61, "max_position_embeddings": 64, "hidden_size": 24, "intermediate_size": 40,
                          "num_hidden_layers": 2, "num_attention_heads": 4, **NO_TOKENS, **options})


def family(model_type, **options):
    return AutoConfig.for_model(model_type, **{"vocab_size": 41, "max_position_embeddings": 64, "hidden_size": 16,
                                               "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
                                               "num_key_value_heads": 2, **NO_TOKENS, **options})


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}

# name: (config, dtype of the file, batch, tokens)
CASES = {
    "gpt2_tied": (gpt2(), torch.float32, 2, 17),
    "gpt2_untied_odd": (gpt2(vocab_size=53, n_embd=45, n_head=3, n_inner=48, tie_word_embeddings=False), torch.float16, 2, 13),
    "gpt2_long": (gpt2(vocab_size=37, n_positions=256, n_embd=16, n_head=2), torch.float32, 1, 256),
    "gpt2_bare": (gpt2(vocab_size=29, n_positions=8, n_embd=16, n_head=2, n_layer=1, activation_function="gelu"),
                  torch.float32, 3, 8),
    "llama_heads": (llama(), torch.bfloat16, 2, 19),
    "llama_grouped": (llama(num_attention_heads=6, num_key_value_heads=2, head_dim=4, rope_theta=500000.0,
                            tie_word_embeddings=True, eos_token_id=[3, 5], bos_token_id=1), torch.float32, 2, 19),
    "llama_scaled": (llama(num_attention_heads=3, num_key_value_heads=1, head_dim=10, rope_theta=2000.0,
                           rope_scaling=LLAMA3, max_position_embeddings=256, attention_bias=True, mlp_bias=True,
                           rms_norm_eps=1e-5), torch.float32, 1, 96),
}


# The families of include/tinytorch/transformer/families.hpp, and the scalings of rotary frequencies. Each has greedy text in
# the place of gradients. Windows are shorter than the texts; dynamic and longrope texts outgrow the trained context.
# name: (config, dtype of the file, batch, tokens, new tokens)
F32, BF16 = torch.float32, torch.bfloat16
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 4.0}
FAMILIES = {
    "qwen2": (family("qwen2", tie_word_embeddings=True), BF16, 2, 13, 12),
    "qwen2_window": (family("qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1), F32, 2, 13, 12),
    "mistral_window": (family("mistral", sliding_window=6, head_dim=6), F32, 2, 13, 12),
    "mistral_full": (family("mistral", sliding_window=None), BF16, 2, 13, 12),
    "qwen3": (family("qwen3", head_dim=10, attention_bias=True), F32, 2, 13, 12),
    "qwen3_yarn": (family("qwen3", head_dim=8, max_position_embeddings=256, rope_parameters={**YARN, "rope_theta": 1000.0}),
                   F32, 1, 70, 12),
    "qwen2_yarn": (family("qwen2", max_position_embeddings=256, rope_parameters={
        **YARN, "rope_theta": 5000.0, "mscale": 1.5, "mscale_all_dim": 0.7, "truncate": False}), F32, 1, 30, 8),
    "llama_linear": (family("llama", rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 800.0}), F32, 2, 20, 8),
    "llama_dynamic": (family("llama", max_position_embeddings=16, head_dim=8,
                             rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 300.0}), F32, 2, 20, 8),
    "phi3": (family("phi3", sliding_window=7), F32, 2, 13, 12),
    "phi3_long": (family("phi3", hidden_size=32, max_position_embeddings=64, original_max_position_embeddings=16,
                         partial_rotary_factor=0.75,
                         rope_parameters={"rope_type": "longrope", "rope_theta": 500.0, "partial_rotary_factor": 0.75,
                                          "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.5, 2.0, 4.0]}), F32, 2, 19, 8),
    "phi3_short": (family("phi3", hidden_size=32, max_position_embeddings=64, original_max_position_embeddings=32,
                          rope_parameters={"rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.1, 1.3, 1.4],
                                           "long_factor": [1.5, 2.0, 4.0, 5.0]}), F32, 2, 12, 8),
    "gemma": (family("gemma", head_dim=6, num_key_value_heads=1), BF16, 2, 13, 12),
    "gemma2": (family("gemma2", num_hidden_layers=3, head_dim=6, sliding_window=6, query_pre_attn_scalar=10,
                      attn_logit_softcapping=2.0, final_logit_softcapping=3.0), F32, 2, 13, 12),
    "gemma3": (family("gemma3_text", num_hidden_layers=4, head_dim=6, sliding_window=5, query_pre_attn_scalar=7,
                      sliding_window_pattern=3, rope_parameters={
                          "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                          "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 2000.0}}), F32, 2, 13, 12),
}


def randomize(model, generator):
    """Fills the parameters with larger numbers than an initialization has, so that attention is far from uniform and every
    term has an effect."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() == 2:
                p.copy_(noise * 0.25)
            elif name.endswith("bias"):
                p.copy_(noise * 0.1)
            else:
                p.copy_(1 + 0.2 * noise)


def run(folder, dtype, attention, inputs, targets):
    """Returns the logits, the loss, and the gradients by name."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()
    logits = model(inputs).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
    loss.backward()
    return logits.detach(), loss.detach(), {name: p.grad for name, p in model.named_parameters()}


def relative_error(values, exact):
    """The norm of the difference divided by the norm of the exact values, with all tensors as one vector."""
    difference = sum((a.double() - b).square().sum() for a, b in zip(values, exact))
    return (difference / sum(b.square().sum() for b in exact)).sqrt()


def expected_values(folder, batch, tokens, generator):
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    inputs = torch.randint(vocabulary, (batch, tokens), generator=generator)
    targets = torch.randint(vocabulary, (batch, tokens), generator=generator)
    targets[0, 1] = -100
    logits, loss, grads = run(folder, torch.float64, "eager", inputs, targets)
    out = {"tokens": inputs, "targets": targets, "logits": logits.float(), "loss": loss}
    for name, grad in grads.items():
        out["grad." + name] = grad.float().contiguous()
    # The relative errors of PyTorch's own bf16 results.
    narrow_logits, _, narrow_grads = run(folder, torch.bfloat16, "sdpa", inputs, targets)
    out["bf16.logits"] = relative_error([narrow_logits], [logits])
    out["bf16.gradients"] = relative_error(narrow_grads.values(), grads.values())
    return out


def write_case(name, config, dtype, batch, tokens):
    generator = torch.Generator().manual_seed(sum(name.encode()))
    model = (LlamaForCausalLM if config.model_type == "llama" else GPT2LMHeadModel)(config)
    randomize(model, generator)
    model = model.to(dtype)
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="30KB" if name == "llama_scaled" else "1GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    if name == "gpt2_bare":  # like the first GPT-2 files: names without the prefix `transformer.`, and stored masks
        path = folder / "model.safetensors"
        tensors = {key.removeprefix("transformer."): value for key, value in load_file(path).items()}
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 8, 8).tril()
        tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
        save_file(tensors, path, {"format": "pt"})
    if name == "llama_grouped":  # config.json in the format of transformers 4
        path = folder / "config.json"
        text = json.loads(path.read_text())
        text["rope_theta"] = text.pop("rope_parameters")["rope_theta"]
        path.write_text(json.dumps({**text, "rope_scaling": None}, indent=2) + "\n")
    save_file(expected_values(folder, batch, tokens, generator), folder / "expected.safetensors")
    for path in folder.iterdir():
        path.chmod(0o644)
    write_text(name, folder)


def greedy_text(model, tokens, steps):
    """The most probable continuation [batch, steps], from the whole text at every step. The smallest difference between the
    two largest logits, relative to the largest, tells whether rounding may decide."""
    text, gap = tokens, 1.0
    for _ in range(steps):
        logits = model(text, use_cache=False).logits[:, -1]
        best = logits.topk(2).values
        gap = min(gap, ((best[:, 0] - best[:, 1]) / logits.abs().max()).min().item())
        text = torch.cat([text, logits.argmax(-1, keepdim=True)], 1)
    return text[:, tokens.shape[1]:].contiguous(), gap


def generated(model, prompt, steps):
    """transformers' greedy continuation of a prompt [1, P], and the smallest difference between the two largest logits. A cache must
    not change the text."""
    options = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": steps, "do_sample": False}
    whole = model.generate(prompt, use_cache=False, **options)
    out = model.generate(prompt, use_cache=True, output_logits=True, return_dict_in_generate=True, **options)
    assert torch.equal(out.sequences, whole)
    best = torch.stack(out.logits).topk(2).values
    return whole[:, prompt.shape[1]:].contiguous(), (best[..., 0] - best[..., 1]).min().item()


def write_text(name, folder):
    """Two prompts and their greedy texts of 16 tokens, or up to the context or an end token. Prompts are passed over until no step is
    decided by rounding, the text has several different tokens, and, in a model with end tokens, the second text ends by one."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(sum(name.encode()))
    ends, out = model.config.eos_token_id or [], {}
    for i, length in enumerate([5, 3] if model.config.max_position_embeddings < 20 else [9, 5]):
        steps = min(16, model.config.max_position_embeddings - length)
        for _ in range(200):
            prompt = torch.randint(model.config.vocab_size, (1, length), generator=generator)
            text, gap = generated(model, prompt, steps)
            ended = text[0, -1].item() in ends
            if gap > 1e-3 and len(text.unique()) > text.shape[1] / 4 and ended == (i == 1 and len(ends) > 0):
                break
        else:
            raise SystemExit(f"{name}: every prompt has a step that rounding decides, or a text of few tokens or without its end")
        out |= {f"prompt{i}": prompt[0], f"text{i}": text[0]}
    save_file(out, folder / "text.safetensors")
    (folder / "text.safetensors").chmod(0o644)


def write_family(name, config, dtype, batch, tokens, steps):
    folder = FOLDER / "families" / name
    for seed in range(50):  # until no step is decided by rounding
        generator = torch.Generator().manual_seed(sum(name.encode()) + 1000 * seed)
        model = AutoModelForCausalLM.from_config(config)
        randomize(model, generator)
        if config.model_type.startswith("gemma"):  # the factor of a norm is 1 + weight
            with torch.no_grad():
                for key, p in model.named_parameters():
                    if "norm" in key:
                        p.sub_(1)
        model = model.to(dtype)
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        inputs = torch.randint(config.vocab_size, (batch, tokens), generator=generator)
        with torch.no_grad():
            logits = model(inputs).logits
            text, gap = greedy_text(model, inputs, steps)
            fresh = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
            cached = fresh.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=steps, do_sample=False)
        if gap > 1e-3:
            break
    else:
        raise SystemExit(f"{name}: every seed has a step that rounding decides")
    save_file({"tokens": inputs, "logits": logits.float(), "text": text,
               "cached_text": cached[:, tokens:].contiguous()}, folder / "expected.safetensors")
    for path in folder.iterdir():
        path.chmod(0o644)


def sampling_cases():
    generator = torch.Generator().manual_seed(5)
    cases = []
    for options in [{}, {"temperature": 0.7}, {"temperature": 2.5}, {"top_k": 4}, {"top_k": 100}, {"top_p": 0.8},
                    {"top_p": 0.05}, {"min_p": 0.2}, {"repetition_penalty": 1.3}, {"repetition_penalty": 0.6},
                    {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2}]:
        logits = torch.randn(1, 16, generator=generator, dtype=torch.float64) * 2
        logits[0, 7] = logits[0, 3]  # a tie
        seen = torch.tensor([[2, 3, 3, 11]])
        steps = [(RepetitionPenaltyLogitsProcessor, "repetition_penalty"), (TemperatureLogitsWarper, "temperature"),
                 (TopKLogitsWarper, "top_k"), (TopPLogitsWarper, "top_p"), (MinPLogitsWarper, "min_p")]
        scores = logits.clone()
        for step, option in steps:
            if option in options:
                scores = step(options[option])(seen, scores)
        cases.append({"options": options, "logits": logits[0].tolist(), "seen": seen[0].tolist(),
                      "probabilities": scores.softmax(-1)[0].tolist()})
    return cases


def check(folder):
    for name in [*CASES, *("families/" + name for name in FAMILIES)]:
        if not (folder / name).exists():
            continue
        model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float64, attn_implementation="eager")
        expected = load_file(FOLDER / name / "expected.safetensors")
        difference = (model.eval()(expected["tokens"]).logits - expected["logits"]).abs().max().item()
        print(f"{name:20} max |difference of logits| {difference:.2e}")
        assert difference < 1e-4, name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", action="store_true", help="write the families only")
    parser.add_argument("--texts", action="store_true", help="write the greedy texts of the stored plain models only")
    parser.add_argument("--check", type=pathlib.Path, metavar="FOLDER", help="check saved models instead of writing files")
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments.check)
    if arguments.texts:
        for name in CASES:
            write_text(name, FOLDER / name)
        return
    for name, case in FAMILIES.items():
        write_family(name, *case)
    if arguments.families:
        return
    for name, (config, dtype, batch, tokens) in CASES.items():
        write_case(name, config, dtype, batch, tokens)
    (GOLDEN / "sampling.json").write_text(json.dumps(sampling_cases(), indent=1) + "\n")


if __name__ == "__main__":
    main()
