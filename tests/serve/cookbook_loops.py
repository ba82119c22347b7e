"""tinker-cookbook's recipes sl_basic and rl_basic against a server, on local data: python cookbook_loops.py URL BASE_MODEL FOLDER TOKENIZER

Prints one line of JSON: the metrics of every step of both. Run by tests/serve/cookbook_test.py with third_party/serve-venv
(tests/serve/requirements-cookbook.txt).
"""

import asyncio
import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

# torch, transformers and datasets are those of the parity folder, behind this Python's own packages.
sys.path += map(str, (pathlib.Path(__file__).resolve().parents[2] / "third_party/parity-venv/lib").glob("python3*/site-packages"))

import chz
import datasets
from tinker_cookbook import model_info, tokenizer_utils
from tinker_cookbook.recipes import rl_basic, sl_basic
from tinker_cookbook.recipes.math_rl import math_env
from tinker_cookbook.rl import train as rl_train
from tinker_cookbook.supervised import train as sl_train
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.utils import cost_estimation
from transformers import PreTrainedTokenizerFast

SUMS = [(n, n + 1) for n in range(12)]


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def supervised(url, model, folder):
    rows = [{"messages": [{"role": "user", "content": f"{a} + {b}?"}, {"role": "assistant", "content": f"It is {a + b}."}]} for a, b in SUMS]
    file = folder / "talks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = sl_basic.build_config_blueprint(model).make()
    common = chz.replace(config.dataset_builder.common_config, batch_size=4, max_length=128)
    config = chz.replace(config, base_url=url, log_path=str(folder / "sl"), learning_rate=0.01, lora_rank=4, num_epochs=3, eval_every=0,
                         dataset_builder=FromConversationFileBuilder(common_config=common, file_path=str(file)))
    asyncio.run(sl_train.main(config))
    return metrics(folder / "sl")


def reinforced(url, model, folder):
    rows = [{"question": f"What is {a} + {b}?", "answer": f"#### {a + b}"} for a, b in SUMS]
    math_env.load_dataset = lambda *_, **__: datasets.Dataset.from_list(rows)  # in place of gsm8k
    math_env.MathEnv.check_answer = lambda _, text: len(text) % 2 == 0  # a model without training says no number
    config = rl_basic.build_config_blueprint(model).make()
    builder = chz.replace(config.dataset_builder, batch_size=3, group_size=4)
    config = chz.replace(config, base_url=url, log_path=str(folder / "rl"), learning_rate=0.01, lora_rank=4, max_tokens=12, dataset_builder=builder)
    asyncio.run(rl_train.main(config))
    return metrics(folder / "rl")


def no_network(*_, **__):
    raise urllib.error.URLError("prices are not asked for")


def main():
    url, model, folder, tokenizer = sys.argv[1:]
    os.environ["TINKER_API_KEY"] = "tml-none"
    cost_estimation.urllib.request.urlopen = no_network
    model_info.get_recommended_renderer_name = lambda _: "role_colon"  # of models that it knows there is a list
    tokenizer_utils.register_tokenizer(model, lambda: PreTrainedTokenizerFast.from_pretrained(tokenizer))
    folder = pathlib.Path(folder)
    found = {"sl": supervised(url, model, folder), "rl": reinforced(url, model, folder)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
