def add(a: int, b: int) -> int:
    """
    Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    print("what a tool prints is no part of the conversation")
    return a + b
