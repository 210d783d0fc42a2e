"""The config of an AWD-LSTM."""

from __future__ import annotations

import transformers

from warmstart.models.architectures import AWD_LSTM

DIRECTIONS = ("forward", "backward")


class AwdLstmConfig(transformers.PreTrainedConfig):  # type: ignore[misc]
    """Sizes, dropouts and direction of an AWD-LSTM (Merity et al. 2018, "Regularizing and Optimizing LSTM Language
    Models"), and of the classifier on it (ULMFiT, Howard and Ruder 2018). The default sizes are those of both papers.

    Args:
        embedding_size: The size of a word's embedding, and of the last layer's states, so that the weights of the
            embeddings can be tied to those of the output.
        hidden_size: The size of the states of all layers but the last.
        direction: Which way a text is read; a `backward` model reads from the last token to the first.
        embedding_dropout: The share of the words whose embeddings are zero throughout a sequence.
        input_dropout: Variational dropout on the embeddings of tokens.
        weight_dropout: DropConnect: the share of the recurrent weights that are zero throughout a sequence.
        hidden_dropout: Variational dropout between layers.
        output_dropout: Variational dropout on the output of the last layer, before words are predicted from it.
        dropout_multiplier: What all of these are multiplied by.
        activation_regularization: The weight of the squares of the last layer's outputs in the loss of a language model
            (AR, the paper's α).
        temporal_regularization: The same for the differences between neighbouring tokens (TAR, the paper's β).
        bptt: Tokens of the pieces in which a classifier reads a document.
        max_gradient_tokens: From how many of a document's last tokens gradients reach the encoder: whole pieces.
        classifier_hidden_size: The width of the classifier's hidden layer.
        classifier_dropout: Dropout before it.
        classifier_hidden_dropout: Dropout after it.
    """

    model_type = AWD_LSTM

    vocab_size: int = 60_000
    embedding_size: int = 400
    hidden_size: int = 1152
    num_hidden_layers: int = 3
    direction: str = "forward"
    embedding_dropout: float = 0.02
    input_dropout: float = 0.25
    weight_dropout: float = 0.2
    hidden_dropout: float = 0.15
    output_dropout: float = 0.1
    dropout_multiplier: float = 1.0
    activation_regularization: float = 2.0
    temporal_regularization: float = 1.0
    bptt: int = 70
    max_gradient_tokens: int = 700
    classifier_hidden_size: int = 50
    classifier_dropout: float = 0.4
    classifier_hidden_dropout: float = 0.1
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0

    def dropout(self, name: str) -> float:
        """One of the dropouts by its name, multiplied."""
        return min(float(getattr(self, f"{name}_dropout")) * self.dropout_multiplier, 0.99)


transformers.AutoConfig.register(AWD_LSTM, AwdLstmConfig, exist_ok=True)
