"""CKPT, ENV and MEM: files, versions, memory and disk."""
from fault import Cases
import scene
import staging

CASES = Cases()


@CASES.fault("CKPT-01", "an adapter with another prefix in its keys")
def renamed_keys(s):
    source = scene.SOURCE / "tests" / "fixtures" / "parity" / "tiny_llama" / "adapter"
    folder = s.path("adapter")
    folder.mkdir()
    (folder / "adapter_config.json").write_text((source / "adapter_config.json").read_text())
    header, body = staging.read_safetensors(source / "adapter_model.safetensors")
    renamed = {name.replace("base_model.model.", "base_model."): entry for name, entry in header.items()}
    staging.write_safetensors(folder / "adapter_model.safetensors", renamed, body)
    s.sft(adapter_name_or_path="adapter")


@CASES.fault("CKPT-02", "an adapter of a 4-bit base, merged onto the base as it is stored", "doctor", "--deep", level="warn")
def stored_base(s):
    s.sft(load_in_4bit=True, bnb_4bit_quant_type="fp4")


@CASES.fault("CKPT-03", "config.json ties the head to the embedding, but the file has a different head")
def tied_and_apart(s):
    file = s.model() / staging.WEIGHTS
    header, body = staging.read_safetensors(file)
    begin, end = header["model.embed_tokens.weight"]["data_offsets"]
    header["lm_head.weight"] = {**header["model.embed_tokens.weight"], "data_offsets": [len(body), len(body) + end - begin]}
    staging.write_safetensors(file, header, body + bytes(reversed(body[begin:end])))
    s.sft()


CASES.exclude("CKPT-04", "trained with another template than the one that is saved")


@CASES.fault("CKPT-05", "a method that depends on more than what a checkpoint holds", "sabotage", "hidden_state")
def hidden_state(s):
    s.sft()


@CASES.fault("CKPT-05", "resume from a checkpoint without the optimizer's moments",
             "train", "--resume_from_checkpoint", "true", before=(("train",), lambda s: s.path("out/checkpoint-12/optimizer.safetensors").unlink()))
def resume_without_moments(s):
    s.sft(max_steps=12, save_strategy="steps", save_steps=12)


@CASES.fault("CKPT-06", "a checkpoint at each of a hundred million steps", level="warn", varies=True)
def no_disk(s):
    s.sft(max_steps=100000000, save_strategy="steps", save_steps=1)


CASES.exclude("ENV-01", "another version of one part")


@CASES.fault("MEM-01", "memory_limit 1MB")
def no_memory(s):
    s.sft(memory_limit="1MB")


@CASES.fault("MEM-02", "one row in sixty a hundred times as long as the others", level="warn")
def late_giant(s):
    rows = scene.text_rows()
    rows[-1] = {"text": " ".join(row["text"] for row in scene.text_rows(48))}
    s.sft(rows)
    s.add("max_length: null")


@CASES.fault("MEM-02", "memory that grows by 6 MB a step", "sabotage", "memory_creeps", level="warn", varies=True)
def creeping(s):
    s.sft(max_steps=1000000, logging_steps=1000)
