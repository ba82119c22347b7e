# A script that is recorded (commands/recorded/recorded_script.h); worker_base.py stands above it.
# The package hone.recorded does all of it.
STATE = {}


def answer_script(message):
    if "worker" not in STATE:
        if sys.version_info < (3, 10):
            raise Fault("Python 3.10 or newer, which hone's package for Python needs", f"Python {sys.version.split()[0]}, {sys.executable}", "",
                        "activate an environment with a newer one")
        for folder in message.pop("packages"):
            add_folder(folder)
        try:
            from hone.recorded.worker import Worker
        except ImportError as error:
            raise Fault("the Python package hone-train, which runs scripts", describe(error), f"Python is {sys.executable}",
                        "install hone's wheel there, or activate the environment that has it") from None
        STATE["worker"] = Worker()
    return STATE["worker"].answer(message)


serve(answer_script)
