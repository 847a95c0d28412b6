"""Lessons: notebooks read as steps, answers judged, hints given, progress kept.

Main entries: `lesson_files`, `lesson_coach.Coach`.
"""
