"""What a run did: `view` is the place of two tables, `steps` of a run and `workers` of a job;
`controller` fills them.
"""
