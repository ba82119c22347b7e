"""SmolLM2-135M in fp32 with the deterministic adapter (models/smollm2-f32-adapter, common.rule_tensor): what transformers +
PEFT compute, condensed to FIXTURES/smollm2.safetensors. --full FOLDER writes smollm2_full.safetensors there: every
gradient whole (grad.<PEFT key>) and the logits [T,V] of both sequences (all_logits_n).

LoRA: r 8, alpha 16, all-linear. S = 2 sequences of T tokens, P = 4 positions, 512 vocabulary indices, G = 420 gradients
in the order of metadata "names" (JSON list of PEFT keys: layer, then q k v o gate up down, then A, B).
  ids_n, labels_n [T] i64    labels are -100 where not scored, as ids otherwise
  vocabulary [512] i64       splitmix64(i) mod 49152, i = 0..511
  positions_n [P] i64        0, T/3, 2T/3, T-1
  logits_n [P,512] f32       logits_n[p,v] = logit `vocabulary[v]` at position positions_n[p], adapter on
  base_logits_n [P,512] f32  the same, adapter off
  logsumexp_n [T] f32        over the whole vocabulary at every position, adapter on
  loss [1] f32               sum of nll over both sequences / scored tokens
  grad_norm [G] f64          L2 norm of each gradient tensor
  grad_index [G,8] i64       flat row-major indices: splitmix64(1000000 * g + s) mod n, g the tensor's place, n its size
  grad_sample [G,8] f32      the gradient's elements there
  grad_projection [G,8] f64  sum over elements e of sign(e, p) * gradient[e] in float64, p = 0..7, where sign is +1
                             when bit 0 of splitmix64(8 * e + p) is 0, else -1. For a difference d of two gradients
                             the mean square of the 8 projected differences estimates |d|^2.
splitmix64(x): x += 0x9E3779B97F4A7C15; x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9; x = (x ^ x >> 27) * 0x94D049BB133111EB;
return x ^ x >> 31, all modulo 2^64."""

from common import (SMOLLM2, SMOLLM2_ADAPTER, adapter_parameters, options, sequence_loss, splitmix64, write_tensors)

import numpy as np
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = ["The river rises in the hills, turns twice around the old mill, and reaches the sea at a town that has forgotten "
         "why it was built there. Every spring the water carries away a little more of the bank and leaves it elsewhere.",
         "Question: a baker has 36 rolls and puts them into boxes of 6. How many boxes does she fill, and how many rolls "
         "are left? Answer: 36 / 6 = 6 boxes, and 36 - 6 * 6 = 0 rolls are left over."]
PROJECTIONS = 8


def condense(gradients):
    norms, index, sample, projection = [], [], [], []
    for g, value in enumerate(gradients):
        flat = value.reshape(-1).double().numpy()
        norms.append(float(np.sqrt(np.sum(flat * flat))))
        at = splitmix64(1000000 * g + np.arange(8)) % np.uint64(flat.size)
        index.append(at.astype(np.int64))
        sample.append(flat[at.astype(np.int64)])
        elements = np.arange(flat.size, dtype=np.uint64) * np.uint64(PROJECTIONS)
        projection.append([float(np.sum(np.where(splitmix64(elements + np.uint64(p)) & np.uint64(1), -flat, flat)))
                           for p in range(PROJECTIONS)])
    return {"grad_norm": torch.tensor(norms, dtype=torch.float64), "grad_index": torch.tensor(np.array(index)),
            "grad_sample": torch.tensor(np.array(sample), dtype=torch.float32),
            "grad_projection": torch.tensor(projection, dtype=torch.float64)}


def main():
    arguments = options(__doc__)
    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2)
    sequences = []
    for n, text in enumerate(TEXTS):
        ids = torch.tensor(tokenizer(text).input_ids[:48])
        labels = ids.clone()
        labels[:8 * n] = -100  # the second sequence's first 8 tokens are a prompt
        sequences.append((ids, labels))
    base = AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32, attn_implementation="sdpa")
    model = PeftModel.from_pretrained(base, str(SMOLLM2_ADAPTER), is_trainable=True).eval()
    loss, logits = sequence_loss(model, sequences)
    loss.backward()
    parameters = adapter_parameters(model)
    vocabulary = torch.tensor((splitmix64(np.arange(512)) % np.uint64(49152)).astype(np.int64))
    tensors = {"vocabulary": vocabulary, "loss": loss.reshape(1), **condense([p.grad for p in parameters.values()])}
    for n, (ids, labels) in enumerate(sequences):
        positions = torch.tensor([0, len(ids) // 3, 2 * len(ids) // 3, len(ids) - 1])
        with torch.no_grad(), model.disable_adapter():
            plain = model(input_ids=ids[None]).logits[0]
        tensors |= {f"ids_{n}": ids, f"labels_{n}": labels, f"positions_{n}": positions,
                    f"logits_{n}": logits[n][positions][:, vocabulary], f"logsumexp_{n}": logits[n].logsumexp(-1),
                    f"base_logits_{n}": plain[positions][:, vocabulary]}
    rule = __doc__.split("\n\n", 1)[1]
    write_tensors(arguments.out / "smollm2.safetensors", tensors, names=list(parameters), rule=rule)
    print(f"smollm2: loss {loss.item():.6f}, {len(parameters)} gradients, norms "
          f"{tensors['grad_norm'].min():.3e} to {tensors['grad_norm'].max():.3e}, tokens {[len(i) for i, _ in sequences]}")
    if arguments.full:
        whole = {f"grad.{name}": value.grad for name, value in parameters.items()}
        write_tensors(arguments.full / "smollm2_full.safetensors",
                      {**tensors, **whole, **{f"all_logits_{n}": one for n, one in enumerate(logits)}},
                      names=list(parameters), rule=rule)


main()
