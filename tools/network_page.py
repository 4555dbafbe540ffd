"""The network settings of a unit with Ethernet, as its flash page holds them (boards/ethernet/network_settings.h)."""

import ipaddress
import re

GROUPS_BEGIN = 0xE0000000  # 224.0.0.0: from there on no host's address
SERVER_FORM = "IPv4 address and port, as in 192.168.1.5:7433: a board has no name service"


def host_of(text, what):
    """A host's IPv4 address; ValueError names what it was to be."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise ValueError(f"{what} is no IPv4 address: {text}") from error
    if not 0 < int(address) < GROUPS_BEGIN:
        raise ValueError(f"{what} is no host's address: {text}")
    return address


def text_of(address, server, gateway=None, mac=None):
    """The page's text. address: "192.168.1.20/24"; server: "192.168.1.5:7433". ValueError says what is wrong."""
    own, slash, size = address.partition("/")
    host_of(own, "the unit's address")
    if not slash or not re.fullmatch(r"[1-9][0-9]?", size) or int(size) > 30:
        raise ValueError(f"the unit's address wants the bits of its network, 1 to 30, as in 192.168.1.20/24: {address}")
    network = ipaddress.IPv4Interface(address).network
    host, _, port = server.rpartition(":")
    if not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise ValueError(f"the server wants {SERVER_FORM}: {server}")
    hop = host_of(host, "the server's")
    lines = [f"address = {address}", f"server = {server}"]
    if gateway is not None:
        lines.append(f"gateway = {host_of(gateway, 'the gateway')}")
    if hop not in network:
        if gateway is None:
            raise ValueError(f"the server {host} is not in {network}: name a gateway")
        if host_of(gateway, "the gateway") not in network:
            raise ValueError(f"the gateway {gateway} is not in the unit's own network {network}")
    if mac is not None:
        if not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", mac) or int(mac[:2], 16) & 1:
            raise ValueError(f"a unit's MAC address is six bytes, the first even, as in 02:00:00:00:00:01: {mac}")
        lines.append(f"mac = {mac}")
    return "\n".join(lines) + "\n"
