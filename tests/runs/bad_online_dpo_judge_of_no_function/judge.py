def longer(prompts, completions):
    return [int(len(second) > len(first)) for first, second in completions]
