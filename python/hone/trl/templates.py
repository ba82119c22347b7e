"""clone_chat_template: the template of one tokenizer for the model and the tokenizer of another."""
import os

from hone.errors import Refused


def clone_chat_template(model, tokenizer, source_tokenizer_path, resize_to_multiple_of=64):
    """(model, tokenizer, ids of the tokens that are new): both objects are changed, and a trainer takes them as they are.

    The tokenizer gets the template, the added tokens and the end of the source's, and the model a row for each token; where rows are filled up to
    a multiple, the tokenizer gets a token for each of these too.
    """
    try:
        from transformers import AddedToken, AutoTokenizer
    except ImportError as error:
        raise Refused("clone_chat_template", "a tokenizer, opened by transformers", str(error),
                      f"install transformers, or set chat_template_path={os.fspath(source_tokenizer_path)!r} in the config") from None
    source = AutoTokenizer.from_pretrained(os.fspath(source_tokenizer_path))
    tokenizer.chat_template = source.get_chat_template()
    known = tokenizer.get_vocab()
    new = [token for token in source.added_tokens_decoder.values() if token.content not in known]
    tokenizer.add_tokens(new)
    tokenizer.eos_token = source.eos_token
    model.config.eos_token_id = tokenizer.eos_token_id
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.resize_token_embeddings(len(tokenizer.get_vocab()), pad_to_multiple_of=resize_to_multiple_of)
    rows, number = model.get_input_embeddings().weight.shape[0], 0
    while len(tokenizer.get_vocab()) < rows:
        filler = AddedToken(f"<extra_id_{number}>")
        number += 1
        if tokenizer.add_tokens(filler):
            new.append(filler)
    return model, tokenizer, tokenizer.convert_tokens_to_ids([token.content for token in new])
