"""Names and answers.

Names in the texts of WNUT 17, a set of TFDS, and answers about images, of conversations in LLaVA's format.
"""

from txjax.data import TFDS, ConversationFiles, Conversations, TokenLabels
from txjax.decoding import Sampling
from txjax.eval import Entities, GeneratedAnswers
from txjax.objectives import NextToken, TokenClassification

names = TokenLabels(source=TFDS(name="wnut17"), split="test", text=("tokens",), label="tags", length=64)
entities = Entities(data=names, every_steps=500)
print(entities.required_keys(TokenClassification()))
# ('id', 'tokens', 'targets', 'weights')

questions = Conversations(source=ConversationFiles("llava/test.json"), split="test", image_tokens=576)
answers = GeneratedAnswers(data=questions, metrics=("exact_match",), length=16, search=Sampling(temperature=0.0))
print(answers.required_keys(NextToken()))  # ('id', 'tokens', 'weights')
