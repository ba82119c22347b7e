"""An environment of verifiers: sums in words, asked in two turns. Its taskset, and the harness that asks; tests/serve/verifiers_test.py runs it."""
import openai
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult

__all__ = ["AskTwice", "Sums"]
AGAIN = "Say it again."


class Sum(vf.TaskData):
    answer: str


class SumTask(vf.Task[Sum]):
    @vf.reward
    async def words(self, trace) -> float:
        """Of an untrained model: how long its two answers are. A real reward compares with task.answer."""
        return float(sum(len(message.content or "") for message in trace.assistant_messages))

    @vf.metric
    async def right(self, task, trace) -> float:
        return float(task.answer in trace.last_reply)


class Sums(vf.Taskset[SumTask]):
    def load(self):
        for first in range(3):
            yield SumTask(Sum(prompt=f"How many are {first} and 2?", answer=str(first + 2)), self.config.task)


class AskTwice(vf.Harness[vf.HarnessConfig]):
    """A program that talks to the endpoint that it is given, by openai-python."""
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        messages = [{"role": "user", "content": data.prompt}]
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            for follows in (AGAIN, None):
                said = await client.chat.completions.create(model=ctx.model, messages=messages)
                messages.append({"role": "assistant", "content": said.choices[0].message.content or ""})
                if follows:
                    messages.append({"role": "user", "content": follows})
        return ProgramResult(exit_code=0, stdout="", stderr="")
