from jumbot.transport.exact.kl import kl
