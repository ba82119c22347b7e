def length(completions, trainer_state, **_):
    if trainer_state.global_step >= 2:
        raise RuntimeError("the model behind it is gone")
    return [float(len(text)) for text in completions]
