-- Past changes of a role's term, newest first. Index: leader_change_role.
SELECT role, term, node, at FROM {schema}.leader_change WHERE role = $1 ORDER BY id DESC LIMIT $2;
