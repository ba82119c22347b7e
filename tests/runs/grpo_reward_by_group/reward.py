def loud(prompts, completions, **kwargs):
    print("scoring", len(completions), "completions of", len({str(p) for p in prompts}), "prompts")
    for i in range(11):
        print("line", i)
    return [float(i % 2) for i in range(len(completions))]
