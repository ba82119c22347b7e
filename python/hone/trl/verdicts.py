"""What the doctor has stopped a run for, told in Python's words: its first line says how to go on."""
import json
import pathlib


def fault_of(folder):
    """The program's own record of what it has paused or stopped for; {} where there is none."""
    try:
        return json.loads((pathlib.Path(folder) / "hone-fault.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def paused(folder):
    fault = fault_of(folder)
    verdicts = fault.get("verdicts") or [{}]
    saved = fault.get("checkpoint", -1) >= 0
    again = "train(resume_from_checkpoint=True)" if saved else "train()"
    lines = [f"[{folder}] paused by the doctor after step {fault.get('step', '?')}, {verdicts[0].get('code', 'a fault')}; to go on all the same: "
             f"trainer.args.on_fault = 'warn', then {again}"]
    for verdict in verdicts:
        lines.append(f"  found:  {verdict.get('code', '')} {verdict.get('what', 'it is printed above')}".rstrip())
        for name, label in (("evidence", "seen"), ("cause", "cause"), ("fix", "do")):
            if verdict.get(name):
                lines.append(f"  {label + ':':8}{verdict[name]}")
    lines.append(f"  on_fault='warn' in args never pauses; `hone explain {folder}` tells this again")
    return "\n".join(lines)
