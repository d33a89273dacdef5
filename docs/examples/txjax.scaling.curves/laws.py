"""Formulas of the loss.

The loss of Chinchilla by two published laws, and the best run of its budget by one.
"""

import numpy as np

from txjax.scaling.curves import Broken, DataConstrained, Kaplan, Overtraining, Parametric

points = {"params": np.array([70e9]), "tokens": np.array([1.4e12])}
chinchilla = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
kaplan = {"Nc": 8.8e13, "Dc": 5.4e13, "alpha_N": 0.076, "alpha_D": 0.095}
for curve, parameters in ((Parametric(), chinchilla), (Kaplan(), kaplan)):
    log_loss, _ = curve.log_loss(curve.theta(parameters), points)
    print(curve.name, np.exp(log_loss).round(2))
# parametric [1.94]
# kaplan [1.74]

best = Parametric().optimum(chinchilla, flops=5.9e23)
print({name: f"{value:.1e}" for name, value in best.items()})
# {'params': '3.3e+10', 'tokens': '3.0e+12'}

for curve in (Overtraining(), DataConstrained(), Broken(role="flops", breaks=1)):
    print(curve.name, curve.needs, curve.parameters)
# overtraining ('params', 'tokens') ('E', 'a', 'b', 'eta')
# data_constrained ('params', 'tokens', 'unique_tokens') ('E', 'A', 'B', 'alpha', 'beta', 'R_D', 'R_N')
# broken ('flops',) ('E', 'b', 'c0', 'c1', 'd1', 'f1')
