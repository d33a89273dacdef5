from txjax.eval.evaluation import Evaluation as Evaluation
