"""TRL's reward functions by their names: hone has them built in, and runs no Python for them."""


class BuiltIn(str):
    """What reward_funcs takes; called with keywords, it is the same reward with these parameters, as TRL's get_* functions."""

    @property
    def __name__(self):
        return self.partition("(")[0]

    def __call__(self, **parameters):
        return BuiltIn(f"{self.__name__}({', '.join(f'{name}={value}' for name, value in parameters.items())})" if parameters else self)


accuracy_reward = BuiltIn("accuracy_reward")
reasoning_accuracy_reward = BuiltIn("reasoning_accuracy_reward")
think_format_reward = BuiltIn("think_format_reward")
get_soft_overlong_punishment = BuiltIn("get_soft_overlong_punishment")
get_cosine_scaled_reward = BuiltIn("get_cosine_scaled_reward")
get_repetition_penalty_reward = BuiltIn("get_repetition_penalty_reward")
