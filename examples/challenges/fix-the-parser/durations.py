"""Durations such as 1h30m."""


def seconds(text):
    total = 0
    number = ""
    for letter in text:
        if letter.isdigit():
            number += letter
        elif letter == "h":
            total += int(number) * 60
            number = ""
        elif letter == "m":
            total += int(number) * 60
        elif letter == "s":
            total += int(number)
    return total
