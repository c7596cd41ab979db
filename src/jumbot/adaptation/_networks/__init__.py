"""Networks, pretrained backbones, and features taken from them."""
