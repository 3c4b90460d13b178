"""Decoding with Hugging Face's GPT-2 and its cache on the CPU, for bench/compare_decode.py.

Answers one JSON request per line. {"load": folder} loads the weights that bench_decode saved, and answers the versions.
{"prompt": [tokens]} computes these tokens from the start and answers "seconds" and "next", the most likely token.
{"next": token} goes on with one token. Needs torch and transformers.
"""

import argparse
import json
import sys
import time

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = cache = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        if "load" in request:
            model = transformers.GPT2LMHeadModel.from_pretrained(request["load"]).eval()
            answer = {"torch": torch.__version__, "transformers": transformers.__version__, "threads": args.threads}
        if "prompt" in request or "next" in request:
            if "prompt" in request:
                cache = transformers.DynamicCache()
            tokens = torch.tensor([request.get("prompt") or [request["next"]]])
            start = time.perf_counter()
            with torch.inference_mode():
                logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
                following = int(logits.argmax())
            answer = {"seconds": time.perf_counter() - start, "next": following}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
