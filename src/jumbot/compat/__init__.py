"""Other libraries' calls, solved by jumbot: change one import, keep the code.

`from jumbot.compat import ot`, `from jumbot.compat.geomloss import SamplesLoss` and
`from jumbot.compat.torchcfm import OTPlanSampler`.  Units, references, arguments and what is returned are those of the
library of that name.
"""
